#pragma once

#include "proto/types/result.hpp"
#include "runtime/image/decode.hpp"

#include <span>
#include <string>
#include <string_view>

/// One function per format, each the only user of its library. Inside the room only.
namespace deepinfer::image {

enum class decode_depth : uint8_t {
  size,  ///< leave `pixels` empty
  pixels,
};

result<rgb_image> decode_png(std::span<const uint8_t> encoded,
                             const image_limits& limits,
                             decode_depth depth);
result<rgb_image> decode_jpeg(std::span<const uint8_t> encoded,
                              const image_limits& limits,
                              decode_depth depth);
result<rgb_image> decode_webp(std::span<const uint8_t> encoded,
                              const image_limits& limits,
                              decode_depth depth);
result<rgb_image> decode_gif(std::span<const uint8_t> encoded,
                             const image_limits& limits,
                             decode_depth depth);

/// `corrupt` without a pixel, `too_large` over a limit.
result<void> check_size(image_size size, const image_limits& limits);

/// Black pixels of a checked size.
rgb_image make_image(image_size size);

failure damaged(image_format format, std::string_view why);

}  // namespace deepinfer::image
