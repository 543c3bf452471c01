#pragma once

#include "kernels/api/number_formats.hpp"

#include <cstdint>

namespace deepinfer::kernels {

/// out[g][c] = sum_i softmax_i(gate[g][i][c]) * value[g][i][c]: `ratio` rows become one, with a
/// softmax of their own for every channel. Dense, no overlap.
struct pool_groups_args {
  float* out;          // [groups][width]
  const float* value;  // [groups][ratio][width]
  const float* gate;   // [groups][ratio][width]
  uint32_t groups;
  uint32_t ratio;  // 1..64
  uint32_t width;
  rounding round;
};

}  // namespace deepinfer::kernels
