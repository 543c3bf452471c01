#pragma once

#include "kernels/api/number_formats.hpp"
#include "kernels/api/weight.hpp"

#include <cstdint>

namespace deepinfer::kernels {

/// out[r][o] = sum_k in[r][k] * weight[o][k] + bias[o]
/// Rows of `in` and `out` lie `in_stride` and `out_stride` floats apart (>= their widths). No
/// overlap. One output depends on its own input row and weight row only, summed in an order that
/// the format and the width fix, so it has the same bits for every `rows`, every split of them,
/// every number of threads and every instruction set.
struct linear_args {
  float* out;
  const float* in;
  weight_matrix weight;
  const float* bias;  ///< [weight.rows]; null: none
  uint32_t rows;
  uint32_t in_stride;
  uint32_t out_stride;
  rounding round;  ///< of the result, once
};

/// Independent products as one unit of work: the outputs of one overlap neither the outputs nor
/// the inputs of another. One hand-over to the backend's threads instead of `count`.
struct linear_batch_args {
  const linear_args* items;
  uint32_t count;
};

}  // namespace deepinfer::kernels
