#pragma once

#include "runtime/image/fit.hpp"
#include "runtime/image/image.hpp"

#include <cstdint>
#include <vector>

namespace deepinfer::image {

/// What the vision tower reads of one image.
struct image_patches {
  uint32_t rows = 0;
  uint32_t columns = 0;
  uint32_t side = 0;             ///< pixels of a patch's side
  std::vector<uint16_t> values;  ///< bf16 [rows * columns][3][side][side], in reading order
};

/// Pixels as (v / 255 - 0.5) / 0.5 in bf16. The sides are multiples of `side`.
[[nodiscard]] image_patches cut_patches(const rgb_image& picture, uint32_t side);

/// Everything between a decoded image and the vision tower: scaled and padded to `fit.target`,
/// then cut.
[[nodiscard]] image_patches prepare_image(const rgb_image& picture,
                                          const image_fit& fit,
                                          const fit_rules& rules);

}  // namespace deepinfer::image
