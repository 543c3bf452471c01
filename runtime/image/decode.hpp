#pragma once

#include "proto/types/result.hpp"
#include "runtime/image/image.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace deepinfer::image {

enum class image_format : uint8_t { png, jpeg, webp, gif };

[[nodiscard]] std::string_view to_string(image_format format);  ///< "PNG"

/// By the first bytes alone; a name or media type is a claim of the sender.
[[nodiscard]] std::optional<image_format> image_format_of(std::span<const std::byte> encoded);

/// The size `decode_image` would give, from the header; the pixels may still be damaged.
[[nodiscard]] result<image_size> read_image_size(std::span<const std::byte> encoded,
                                                 const image_limits& limits);

/// The first frame as RGB, palettes expanded. Alpha, colour profiles, gamma and orientation tags
/// are dropped, 16-bit samples keep their high byte: what Pillow's `convert("RGB")` makes of the
/// file is what the model was trained on. `unsupported` for other formats, `too_large` over a
/// limit, `corrupt` for damaged or truncated bytes: half an image is none.
[[nodiscard]] result<rgb_image> decode_image(std::span<const std::byte> encoded,
                                             const image_limits& limits);

}  // namespace deepinfer::image
