#pragma once

#include <cstdint>

namespace deepinfer::kernels {

/// out[r][o] = sum_k in[r][k] * weight[o][k]
/// `weight` is dense [out_width][in_width]; rows of `in` and `out` lie `in_stride` and `out_stride`
/// floats apart (>= their widths). No overlap. One output depends on its own input row and weight
/// row only, summed in a fixed order, so it is the same for every `rows` and every split of them.
struct linear_args {
  float* out;
  const float* in;
  const float* weight;
  uint32_t rows;
  uint32_t in_width;   // > 0
  uint32_t out_width;  // > 0
  uint32_t in_stride;
  uint32_t out_stride;
};

}  // namespace deepinfer::kernels
