// JPEG by libjpeg-turbo, from memory. The library reports errors by longjmp: it may only leap over
// frames of its own and of the functions here that call it, which hold nothing that needs a
// destructor. (`jpeglib.h` needs <cstdio>, which proto/types/check.hpp brings.)
#include "runtime/image/decoders.hpp"

#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>
#include <cstring>
#include <string>

namespace deepinfer::image {
namespace {

// One file being read; owns the library's structures, which point into it.
struct jpeg_job {
  jpeg_decompress_struct codec{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  std::jmp_buf back{};
  char message[JMSG_LENGTH_MAX] = "";
  error_code code = error_code::corrupt;
  int most_scans = 0;

  jpeg_job() = default;
  jpeg_job(const jpeg_job&) = delete;
  jpeg_job& operator=(const jpeg_job&) = delete;
  ~jpeg_job() { jpeg_destroy_decompress(&codec); }
};

jpeg_job& job_of(j_common_ptr codec) {
  return *static_cast<jpeg_job*>(codec->client_data);
}

error_code meaning_of(int library_code) {
  switch (library_code) {
    case JERR_IMAGE_TOO_BIG:
    case JERR_OUT_OF_MEMORY:
    case JERR_NO_BACKING_STORE:
      return error_code::too_large;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_SOF_UNSUPPORTED:
      return error_code::unsupported;
    default:
      return error_code::corrupt;
  }
}

void keep_error(j_common_ptr codec) {
  jpeg_job& job = job_of(codec);
  job.errors.format_message(codec, job.message);
  job.code = meaning_of(job.errors.msg_code);
  std::longjmp(job.back, 1);
}

// Harmless oddities ("extraneous bytes before marker") are as frequent as they are invisible. But
// where a scan ends before its last pixel the library would go on with gray: a picture that is
// partly invented, and for a header that claims large sides a long time over a few bytes.
void judge_warning(j_common_ptr codec, int level) {
  if (level < 0 && codec->err->msg_code == JWRN_HIT_MARKER) keep_error(codec);
}

void nothing(j_decompress_ptr) {}

// The whole file is in memory, so asking for more means that its end is missing.
boolean refuse_more(j_decompress_ptr codec) {
  ERREXIT(codec, JERR_INPUT_EOF);
  return FALSE;
}

void skip_bytes(j_decompress_ptr codec, long count) {
  jpeg_source_mgr& source = *codec->src;
  if (count <= 0) return;
  if (static_cast<size_t>(count) > source.bytes_in_buffer) refuse_more(codec);
  source.next_input_byte += count;
  source.bytes_in_buffer -= static_cast<size_t>(count);
}

// A scan costs a pass over all pixels and may be a few bytes long.
void count_scans(j_common_ptr codec) {
  jpeg_job& job = job_of(codec);
  if (job.codec.input_scan_number <= job.most_scans) return;
  std::strncpy(job.message, "too many scans", sizeof job.message - 1);
  job.code = error_code::too_large;
  std::longjmp(job.back, 1);
}

bool read_header(jpeg_job& job, std::span<const uint8_t> encoded) {
  if (setjmp(job.back) != 0) return false;
  jpeg_create_decompress(&job.codec);
  job.source.next_input_byte = encoded.data();
  job.source.bytes_in_buffer = encoded.size();
  job.source.init_source = nothing;
  job.source.fill_input_buffer = refuse_more;
  job.source.skip_input_data = skip_bytes;
  job.source.resync_to_restart = jpeg_resync_to_restart;
  job.source.term_source = nothing;
  job.codec.src = &job.source;
  job.progress.progress_monitor = count_scans;
  job.codec.progress = &job.progress;
  return jpeg_read_header(&job.codec, TRUE) == JPEG_HEADER_OK;
}

bool start(jpeg_job& job) {
  if (setjmp(job.back) != 0) return false;
  return jpeg_start_decompress(&job.codec) != FALSE;
}

bool read_rows(jpeg_job& job, uint8_t* rows, size_t row_bytes, uint32_t count) {
  if (setjmp(job.back) != 0) return false;
  for (uint32_t done = 0; done < count; ++done) {
    uint8_t* row = rows + done * row_bytes;
    if (jpeg_read_scanlines(&job.codec, &row, 1) != 1) return false;
  }
  return true;
}

uint8_t scaled(uint32_t a, uint32_t b) {  // a * b / 255, rounded
  const uint32_t t = a * b + 128;
  return static_cast<uint8_t>((t + (t >> 8)) >> 8);
}

// Four inks as every program writes them since Adobe did: 255 is no ink.
void inks_to_rgb(uint8_t* out, const uint8_t* inks, uint32_t width) {
  for (uint32_t x = 0; x < width; ++x, out += 3, inks += 4)
    for (uint32_t c = 0; c < 3; ++c)
      out[c] = static_cast<uint8_t>(inks[3] - scaled(255u - inks[c], inks[3]));
}

bool read_inks(jpeg_job& job, rgb_image& out) {
  std::vector<uint8_t> inks(size_t{out.size.width} * 4);
  for (uint32_t y = 0; y < out.size.height; ++y) {
    if (!read_rows(job, inks.data(), inks.size(), 1)) return false;
    inks_to_rgb(out.pixels.data() + size_t{y} * out.size.width * 3, inks.data(), out.size.width);
  }
  return true;
}

failure trouble(const jpeg_job& job) {
  const std::string why = job.message;
  if (job.code == error_code::unsupported)
    return failure{job.code, "image: this kind of JPEG is not read (" + why +
                                 "); save it as a plain 8-bit one"};
  if (job.code == error_code::too_large)
    return failure{job.code, "image: reading the JPEG file would take too much (" + why +
                                 "); save it as a baseline one or scale it down"};
  return damaged(image_format::jpeg, why);
}

}  // namespace

result<rgb_image> decode_jpeg(std::span<const uint8_t> encoded,
                              const image_limits& limits,
                              decode_depth depth) {
  jpeg_job job;
  job.codec.err = jpeg_std_error(&job.errors);
  job.errors.error_exit = keep_error;
  job.errors.emit_message = judge_warning;
  job.codec.client_data = &job;
  job.most_scans = static_cast<int>(limits.jpeg_scans);
  if (!read_header(job, encoded)) return trouble(job);
  rgb_image out;
  out.size = {job.codec.image_width, job.codec.image_height};
  if (auto fits = check_size(out.size, limits); !fits) return fits.error();
  if (depth == decode_depth::size) return out;

  const bool inks = job.codec.num_components == 4;
  job.codec.out_color_space = inks ? JCS_CMYK : JCS_RGB;
  job.codec.mem->max_memory_to_use = static_cast<long>(limits.jpeg_bytes);
  if (!start(job)) return trouble(job);
  out = make_image(out.size);
  const bool done =
      inks ? read_inks(job, out)
           : read_rows(job, out.pixels.data(), size_t{out.size.width} * 3, out.size.height);
  if (!done) return trouble(job);
  return out;
}

}  // namespace deepinfer::image
