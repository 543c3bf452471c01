#pragma once

#include "proto/types/result.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace deepinfer::model {

/// `vision_config` of a `config.json`, every field checked.
struct vision_config {
  uint32_t layers = 0;
  uint32_t width = 0;  ///< a multiple of 4 * heads: rope turns rows and columns of pairs
  uint32_t heads = 0;
  uint32_t inner_width = 0;  ///< of the gated MLP: w1 has twice as many rows
  uint32_t patch = 0;        ///< pixels on a side
  uint32_t downsample = 0;   ///< patches on a side of the cell that becomes one token
  double rope_base = 0;
  uint32_t max_image_tokens = 0;  ///< of a whole span, delimiters included
  uint64_t min_pixels = 0;
  double max_aspect = 0;  ///< most width per height (`max_wh_ratio`); 0: no bound

  [[nodiscard]] uint32_t head_width() const { return width / heads; }
  [[nodiscard]] uint32_t patch_values() const { return 3 * patch * patch; }
  /// What the aligner reads: the patches of one cell.
  [[nodiscard]] uint32_t cell_width() const { return width * downsample * downsample; }
};

/// Nothing when the configuration has no `vision_config`; `invalid_argument` names the field and
/// what it must be.
[[nodiscard]] result<std::optional<vision_config>> parse_vision_config(std::string_view json_text);

}  // namespace deepinfer::model
