#pragma once

#include "kernels/api/linear.hpp"
#include "kernels/cpu/decode.hpp"
#include "kernels/cpu/linear_tile.hpp"

#include <algorithm>
#include <cstddef>

/// Rows of weights, and what is done with a finished sum.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

inline constexpr size_t line_bytes = 64;

struct weight_row {
  const uint8_t* values;
  const uint8_t* scales;
};

// Rows behind the last one repeat it: their sums are never stored.
DEEPINFER_INLINE weight_row row_of(const weight_matrix& w, size_t row) {
  const size_t r = std::min<size_t>(row, w.rows - 1);
  return {w.values + r * row_bytes(w),
          w.scales == nullptr ? nullptr : w.scales + scale_offset(w, r)};
}

template <weight_format Format>
DEEPINFER_INLINE const uint8_t* scales_at(const weight_row& row, size_t column) {
  return has_scales(Format) ? row.scales + column / 32 : nullptr;
}

// Adds the bias, rounds and stores `count` sums of row `r` from output `o` on.
DEEPINFER_INLINE void finish(
    const linear_args& a, size_t r, size_t o, const float* sums, size_t count) {
  float* out = a.out + r * a.out_stride + o;
  if (a.bias == nullptr && a.round == rounding::none && count == tile_outputs) {
    std::memcpy(out, sums, tile_outputs * sizeof *out);
    return;
  }
  for (size_t n = 0; n < count; ++n) {
    const float sum = a.bias == nullptr ? sums[n] : sums[n] + a.bias[o + n];
    out[n] = rounded(sum, a.round);
  }
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
