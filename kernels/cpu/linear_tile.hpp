#pragma once

#include "kernels/cpu/vec16.hpp"

#include <cstddef>

/// The innermost loop of a product of many rows: a tile of input rows times weight rows, both fp32,
/// its sums in registers. A part is the piece of sixteen lanes that one register holds; parts take
/// turns, which no lane notices.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

#if defined(DEEPINFER_FOR_AVX2)
using part = __m256;
DEEPINFER_INLINE part load_part(const float* p) {
  return _mm256_loadu_ps(p);
}
DEEPINFER_INLINE part load_part_first(const float* p, size_t n) {
  return _mm256_maskload_ps(p, _mm256_castps_si256(first_lanes(n).a));
}
DEEPINFER_INLINE void store_part(float* p, part x) {
  _mm256_storeu_ps(p, x);
}
DEEPINFER_INLINE part fma_part(part x, part y, part z) {
  return _mm256_fmadd_ps(x, y, z);
}
inline constexpr size_t part_lanes = 8;
inline constexpr size_t tile_rows = 3;  // 3 x 4 sums, 3 inputs and a weight fill 16 registers
#else
using part = vec16;
DEEPINFER_INLINE part load_part(const float* p) {
  return load(p);
}
DEEPINFER_INLINE part load_part_first(const float* p, size_t n) {
  return load_first(p, n);
}
DEEPINFER_INLINE void store_part(float* p, part x) {
  store(p, x);
}
DEEPINFER_INLINE part fma_part(part x, part y, part z) {
  return fma(x, y, z);
}
inline constexpr size_t part_lanes = 16;
#if defined(DEEPINFER_FOR_AVX512)
inline constexpr size_t tile_rows = 6;  // 6 x 4 sums, 6 inputs and a weight: 31 of 32 registers
#else
inline constexpr size_t tile_rows = 2;
#endif
#endif
inline constexpr size_t tile_outputs = 4;

/// Which columns a tile covers.
struct tile_span {
  size_t columns;   // of the input; weights are zero from there to the next multiple of 16
  size_t x_stride;  // floats between input rows
  size_t w_stride;  // floats between weight rows
  bool first;       // the sums begin at zero
};

/// total[m][n] (16 lanes each) += x[m] . w[n], lane by lane in ascending column.
template <size_t Rows>
DEEPINFER_INLINE void multiply_tile(const float* x,
                                    const float* w,
                                    const tile_span& span,
                                    float* total) {
  constexpr size_t n_count = tile_outputs;
  const size_t whole = span.columns / lane_count * lane_count;
  for (size_t lane = 0; lane < lane_count; lane += part_lanes) {
    part sum[Rows][n_count];
    for (size_t m = 0; m < Rows; ++m)
      for (size_t n = 0; n < n_count; ++n)
        sum[m][n] = span.first ? part{} : load_part(total + (m * n_count + n) * lane_count + lane);
    const float* x_at = x + lane;
    const float* w_at = w + lane;
    const auto step = [&](const part(&in)[Rows]) __attribute__((always_inline)) {
#pragma GCC unroll 4
      for (size_t n = 0; n < n_count; ++n) {
        const part weight = load_part(w_at + n * span.w_stride);
#pragma GCC unroll 8
        for (size_t m = 0; m < Rows; ++m) sum[m][n] = fma_part(weight, in[m], sum[m][n]);
      }
    };
    for (size_t k = 0; k < whole; k += lane_count, x_at += lane_count, w_at += lane_count) {
      part in[Rows];
#pragma GCC unroll 8
      for (size_t m = 0; m < Rows; ++m) in[m] = load_part(x_at + m * span.x_stride);
      step(in);
    }
    if (whole + lane < span.columns) {
      part in[Rows];
      for (size_t m = 0; m < Rows; ++m)
        in[m] = load_part_first(x_at + m * span.x_stride, span.columns - whole - lane);
      step(in);
    }
    for (size_t m = 0; m < Rows; ++m)
      for (size_t n = 0; n < n_count; ++n)
        store_part(total + (m * n_count + n) * lane_count + lane, sum[m][n]);
  }
}

/// The same for 1..tile_rows rows.
inline void multiply_rows(
    size_t rows, const float* x, const float* w, const tile_span& span, float* total) {
  switch (rows) {
    case 1:
      return multiply_tile<1>(x, w, span, total);
    case 2:
      return multiply_tile<2>(x, w, span, total);
#if !defined(DEEPINFER_FOR_AVX2) && !defined(DEEPINFER_FOR_AVX512)
  }
#else
    case 3:
      return multiply_tile<3>(x, w, span, total);
#if defined(DEEPINFER_FOR_AVX512)
    case 4:
      return multiply_tile<4>(x, w, span, total);
    case 5:
      return multiply_tile<5>(x, w, span, total);
    case 6:
      return multiply_tile<6>(x, w, span, total);
#endif
  }
#endif
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
