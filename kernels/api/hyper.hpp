#pragma once

#include "kernels/api/number_formats.hpp"

#include <cstdint>

/// Hyper-connections: S residual streams of width d, [rows][S][d] stream-major and dense. S <= 8.
namespace deepinfer::kernels {

inline constexpr uint32_t max_streams = 8;

/// The mixing numbers of one sublayer. With v the S*d values of a row, `product` = fn v (a linear
/// op of its own, so that it shares a hand-over with others) and
/// m = product / sqrt(mean(v^2) + norm_epsilon), (2 + S) * S numbers:
///   pre[k]  = sigmoid(m[k] scale[0] + base[k]) + mix_epsilon
///   post[k] = 2 sigmoid(m[S + k] scale[1] + base[S + k])
///   comb    = row softmax of m[2S + jS + k] scale[2] + base[..], plus mix_epsilon, columns
///             normalised, then (rounds - 1) times rows and columns; each sum gets + mix_epsilon.
struct hc_mix_args {
  float* pre;   // [rows][S]
  float* post;  // [rows][S]
  float* comb;  // [rows][S][S]
  const float* x;
  const float* product;  // [rows][(2 + S) * S]
  const float* base;     // [(2 + S) * S]
  const float* scale;    // [3]
  uint32_t rows;
  uint32_t streams;
  uint32_t width;   // d
  uint32_t rounds;  // >= 1
  float norm_epsilon;
  float mix_epsilon;
};

/// out[r] = sum_k pre[r][k] x[r][k], or the plain mean of the streams when `pre` is null; `out` is
/// [rows][d] and overlaps nothing.
struct hc_collapse_args {
  float* out;
  const float* x;
  const float* pre;
  uint32_t rows;
  uint32_t streams;
  uint32_t width;
  rounding round;
};

/// In place: x[r][k] <- post[r][k] y[r] + sum_j comb[r][j][k] x[r][j] (the sum is over the first
/// index).
struct hc_expand_args {
  float* x;
  const float* y;  // [rows][d]
  const float* post;
  const float* comb;
  uint32_t rows;
  uint32_t streams;
  uint32_t width;
  rounding round;
};

}  // namespace deepinfer::kernels
