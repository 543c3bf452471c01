// WebP by libwebp. Still and animated files alike are taken apart by its demuxer: the canvas is
// black where the first frame does not reach.
#include "runtime/image/decoders.hpp"

#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>

namespace deepinfer::image {
namespace {

struct demux_end {
  void operator()(WebPDemuxer* demux) const { WebPDemuxDelete(demux); }
};

// Owns nothing but the library's view of a frame.
struct first_frame {
  WebPIterator at{};
  bool found = false;

  explicit first_frame(const WebPDemuxer* demux) : found(WebPDemuxGetFrame(demux, 1, &at) != 0) {}
  first_frame(const first_frame&) = delete;
  first_frame& operator=(const first_frame&) = delete;
  ~first_frame() { WebPDemuxReleaseIterator(&at); }

  [[nodiscard]] bool inside(image_size canvas) const {
    return at.x_offset >= 0 && at.y_offset >= 0 && at.width > 0 && at.height > 0 &&
           int64_t{at.x_offset} + at.width <= canvas.width &&
           int64_t{at.y_offset} + at.height <= canvas.height;
  }
};

const char* words(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OK:
      return "ok";
    case VP8_STATUS_OUT_OF_MEMORY:
      return "out of memory";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "unsupported feature";
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "the data ends too early";
    default:
      return "bad bitstream";
  }
}

VP8StatusCode decode_into(rgb_image& canvas, const WebPIterator& frame) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return VP8_STATUS_INVALID_PARAM;
  const VP8StatusCode read =
      WebPGetFeatures(frame.fragment.bytes, frame.fragment.size, &config.input);
  if (read != VP8_STATUS_OK) return read;
  // The container's word for the frame's size is not yet the bitstream's.
  if (config.input.width != frame.width || config.input.height != frame.height)
    return VP8_STATUS_BITSTREAM_ERROR;
  const size_t stride = size_t{canvas.size.width} * 3;
  const size_t start =
      static_cast<size_t>(frame.y_offset) * stride + static_cast<size_t>(frame.x_offset) * 3;
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = canvas.pixels.data() + start;
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.size = canvas.pixels.size() - start;
  const VP8StatusCode done = WebPDecode(frame.fragment.bytes, frame.fragment.size, &config);
  WebPFreeDecBuffer(&config.output);
  return done;
}

}  // namespace

result<rgb_image> decode_webp(std::span<const uint8_t> encoded,
                              const image_limits& limits,
                              decode_depth depth) {
  const WebPData data{encoded.data(), encoded.size()};
  const std::unique_ptr<WebPDemuxer, demux_end> demux(WebPDemux(&data));
  if (demux == nullptr) return damaged(image_format::webp, "bad container");
  rgb_image out;
  out.size = {WebPDemuxGetI(demux.get(), WEBP_FF_CANVAS_WIDTH),
              WebPDemuxGetI(demux.get(), WEBP_FF_CANVAS_HEIGHT)};
  if (auto fits = check_size(out.size, limits); !fits) return fits.error();
  const first_frame frame(demux.get());
  if (!frame.found || !frame.inside(out.size)) return damaged(image_format::webp, "no frame");
  if (depth == decode_depth::size) return out;
  out = make_image(out.size);
  const VP8StatusCode done = decode_into(out, frame.at);
  if (done != VP8_STATUS_OK) return damaged(image_format::webp, words(done));
  return out;
}

}  // namespace deepinfer::image
