#pragma once

#include "runtime/image/image.hpp"

#include <cstdint>

namespace deepinfer::image {

/// How the vision tower cuts images: from `vision_config`. The defaults are the release's.
struct fit_rules {
  uint32_t patch = 14;           ///< pixels of a patch's side, 1..64
  uint32_t merge = 3;            ///< patches of a token's side, 1..16
  uint32_t max_tokens = 1024;    ///< of one image, 4..65536
  uint32_t min_pixels = 295936;  ///< smaller images are scaled up; 544^2
  double max_wh_ratio = 0;       ///< width over height; 0: any
};

/// The size an image gets, and what it costs.
struct image_fit {
  image_size target;  ///< multiples of the patch
  uint32_t patch_rows = 0;
  uint32_t patch_columns = 0;
  uint32_t token_rows = 0;
  uint32_t token_columns = 0;

  /// START, (IMAGE x columns, NEWLINE) x rows, END.
  [[nodiscard]] uint64_t tokens() const { return token_rows * (uint64_t{token_columns} + 1) + 2; }
};

/// Sides 1..65535. At least `min_pixels`, rounded up to whole patches, shrunk to `max_tokens`; then
/// the same again on the result until it stays (at most ten times), which only very narrow images
/// need. Plain double arithmetic: the same answer on every machine.
[[nodiscard]] image_fit fit_image(image_size original, const fit_rules& rules);

/// The size that counts for an image of low detail: its longer side is at most `longest`.
[[nodiscard]] image_size bounded_size(image_size original, uint32_t longest);

}  // namespace deepinfer::image
