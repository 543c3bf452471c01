#pragma once

#include "kernels/api/number_formats.hpp"

#include <cstdint>

namespace deepinfer::kernels {

/// out[r][i] = in[r][i] * weight[i] / sqrt(mean(in[r]^2) + epsilon)
/// Row-major, dense. `out` may be `in`; `weight` must not overlap either.
struct rms_norm_args {
  float* out;
  const float* in;
  const float* weight;
  uint32_t rows;
  uint32_t width;  // > 0
  float epsilon;   // > 0
  rounding round;  ///< of the result
};

}  // namespace deepinfer::kernels
