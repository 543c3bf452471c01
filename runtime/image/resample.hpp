#pragma once

#include "runtime/image/image.hpp"

namespace deepinfer::image {

/// Bicubic (a = -0.5) with the filter widened when shrinking, horizontal pass first, rounded to
/// 8 bits in between, weights in fixed point with 22 bits: the bits that Pillow's
/// `resize(size, BICUBIC)` gives for an RGB image. Sides of at least 1.
[[nodiscard]] rgb_image resize_bicubic(const rgb_image& in, image_size size);

/// Scaled to fit inside `size` with its shape kept, centred on gray (127, 127, 127): Pillow's
/// `ImageOps.pad`.
[[nodiscard]] rgb_image pad_to(const rgb_image& in, image_size size);

}  // namespace deepinfer::image
