// PNG by libpng, from memory. libpng reports errors by longjmp: it may only leap over frames of its
// own and of the functions here that call it, which hold nothing that needs a destructor.
#include "runtime/image/decoders.hpp"

#include <png.h>

#include <csetjmp>
#include <cstring>

namespace deepinfer::image {
namespace {

// One file being read; owns libpng's structures.
struct png_job {
  std::span<const uint8_t> encoded;
  size_t at = 0;
  char message[160] = "";
  png_structp codec = nullptr;
  png_infop info = nullptr;

  png_job() = default;
  png_job(const png_job&) = delete;
  png_job& operator=(const png_job&) = delete;
  ~png_job() { png_destroy_read_struct(&codec, &info, nullptr); }
};

void keep_error(png_structp codec, png_const_charp text) {
  auto* job = static_cast<png_job*>(png_get_error_ptr(codec));
  std::strncpy(job->message, text, sizeof job->message - 1);
  png_longjmp(codec, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

void give_bytes(png_structp codec, png_bytep out, size_t count) {
  auto* job = static_cast<png_job*>(png_get_io_ptr(codec));
  if (count > job->encoded.size() - job->at) png_error(codec, "the data ends too early");
  std::memcpy(out, job->encoded.data() + job->at, count);
  job->at += count;
}

bool read_header(png_job& job, const image_limits& limits) {
  if (setjmp(png_jmpbuf(job.codec)) != 0) return false;
  png_set_read_fn(job.codec, &job, give_bytes);
  png_set_user_limits(job.codec, limits.side, limits.side);
  // Neither profiles nor texts are looked at, so that none is unpacked.
  png_set_keep_unknown_chunks(job.codec, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(job.codec, job.info);
  return true;
}

// Every kind of PNG to 8-bit RGB; false when the row would have another length.
bool set_transforms(png_job& job) {
  if (setjmp(png_jmpbuf(job.codec)) != 0) return false;
  png_set_strip_16(job.codec);
  png_set_expand(job.codec);  // palettes, gray of 1, 2 and 4 bits
  png_set_gray_to_rgb(job.codec);
  png_set_strip_alpha(job.codec);
  png_set_interlace_handling(job.codec);
  png_read_update_info(job.codec, job.info);
  const size_t row_bytes = size_t{png_get_image_width(job.codec, job.info)} * 3;
  if (png_get_rowbytes(job.codec, job.info) == row_bytes) return true;
  std::strncpy(job.message, "unknown kind of pixels", sizeof job.message - 1);
  return false;
}

bool read_pixels(png_job& job, uint8_t* pixels, image_size size) {
  if (setjmp(png_jmpbuf(job.codec)) != 0) return false;
  const bool interlaced = png_get_interlace_type(job.codec, job.info) == PNG_INTERLACE_ADAM7;
  for (int pass = 0; pass < (interlaced ? PNG_INTERLACE_ADAM7_PASSES : 1); ++pass)
    for (uint32_t y = 0; y < size.height; ++y)
      png_read_row(job.codec, pixels + size_t{y} * size.width * 3, nullptr);
  return true;  // what follows the pixels changes nothing
}

uint32_t big_endian(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
}

}  // namespace

result<rgb_image> decode_png(std::span<const uint8_t> encoded,
                             const image_limits& limits,
                             decode_depth depth) {
  // The header stands at a fixed place, and is read before libpng allocates for it.
  if (encoded.size() < 24 || std::memcmp(encoded.data() + 12, "IHDR", 4) != 0)
    return damaged(image_format::png, "no header");
  rgb_image out;
  out.size = {big_endian(encoded.data() + 16), big_endian(encoded.data() + 20)};
  if (auto fits = check_size(out.size, limits); !fits) return fits.error();

  png_job job;
  job.encoded = encoded;
  job.codec = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, keep_error, ignore_warning);
  if (job.codec != nullptr) job.info = png_create_info_struct(job.codec);
  if (job.info == nullptr)
    return failure{error_code::no_capacity, "image: no memory for the PNG reader; try again later"};
  if (!read_header(job, limits) || !set_transforms(job))
    return damaged(image_format::png, job.message);
  if (depth == decode_depth::size) return out;
  out = make_image(out.size);
  if (!read_pixels(job, out.pixels.data(), out.size))
    return damaged(image_format::png, job.message);
  return out;
}

}  // namespace deepinfer::image
