#pragma once

#include "kernels/cpu/vec16.hpp"

#include <cstddef>

/// The innermost loop of a product of many rows: a tile of input rows times weight rows, both
/// packed so that it reads two streams of memory, its sums in registers. A part is the piece of
/// sixteen lanes that one register holds; parts take turns, which no lane notices.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

#if defined(DEEPINFER_FOR_AVX2)
using part = __m256;
DEEPINFER_INLINE part load_part(const float* p) {
  return _mm256_load_ps(p);
}
DEEPINFER_INLINE void store_part(float* p, part x) {
  _mm256_store_ps(p, x);
}
DEEPINFER_INLINE part fma_part(part x, part y, part z) {
  return _mm256_fmadd_ps(x, y, z);
}
DEEPINFER_INLINE part no_part() {
  return _mm256_setzero_ps();
}
inline constexpr size_t part_lanes = 8;
inline constexpr size_t tile_rows = 3;  // 3 x 4 sums, 3 inputs and a weight fill 16 registers
#else
using part = vec16;
DEEPINFER_INLINE part load_part(const float* p) {
  return load(p);
}
DEEPINFER_INLINE void store_part(float* p, part x) {
  store(p, x);
}
DEEPINFER_INLINE part fma_part(part x, part y, part z) {
  return fma(x, y, z);
}
DEEPINFER_INLINE part no_part() {
  return all(0.0f);
}
inline constexpr size_t part_lanes = 16;
#if defined(DEEPINFER_FOR_AVX512)
inline constexpr size_t tile_rows = 6;  // 6 x 4 sums, 6 inputs and a weight: 31 of 32 registers
#else
inline constexpr size_t tile_rows = 2;
#endif
#endif
inline constexpr size_t tile_outputs = 4;
inline constexpr size_t tile_floats = tile_rows * tile_outputs * lane_count;

/// Which of a product's column blocks a tile multiplies.
struct tile_span {
  size_t steps;  // of sixteen columns
  bool first;    // the sums begin at zero
  bool last;     // the sums are complete
};

/// total[m][n] (16 lanes each) += x[m] . w[n], lane by lane in ascending column, with `x` packed as
/// [step][Rows][16] and `w` as [step][tile_outputs][16]. The last block leaves total's lanes summed
/// up in sums[m][n].
template <size_t Rows>
DEEPINFER_INLINE void multiply_tile(
    const float* x, const float* w, const tile_span& span, float* total, float* sums) {
  constexpr size_t outputs = tile_outputs;
  for (size_t lane = 0; lane < lane_count; lane += part_lanes) {
    part sum[Rows][outputs];
#pragma GCC unroll 8
    for (size_t m = 0; m < Rows; ++m)
#pragma GCC unroll 4
      for (size_t n = 0; n < outputs; ++n)
        sum[m][n] =
            span.first ? no_part() : load_part(total + (m * outputs + n) * lane_count + lane);
    const float* x_at = x + lane;
    const float* w_at = w + lane;
    for (size_t step = 0; step < span.steps; ++step) {
      part in[Rows];
#pragma GCC unroll 8
      for (size_t m = 0; m < Rows; ++m) in[m] = load_part(x_at + m * lane_count);
#pragma GCC unroll 4
      for (size_t n = 0; n < outputs; ++n) {
        const part weight = load_part(w_at + n * lane_count);
#pragma GCC unroll 8
        for (size_t m = 0; m < Rows; ++m) sum[m][n] = fma_part(weight, in[m], sum[m][n]);
      }
      x_at += Rows * lane_count;
      w_at += outputs * lane_count;
    }
    if constexpr (part_lanes == lane_count) {
      if (span.last) {
#pragma GCC unroll 8
        for (size_t m = 0; m < Rows; ++m) sum4(sum[m], sums + m * outputs);
        return;
      }
    }
#pragma GCC unroll 8
    for (size_t m = 0; m < Rows; ++m)
#pragma GCC unroll 4
      for (size_t n = 0; n < outputs; ++n)
        store_part(total + (m * outputs + n) * lane_count + lane, sum[m][n]);
  }
  if (part_lanes != lane_count && span.last)
    for (size_t m = 0; m < Rows; ++m) {
      vec16 sum[outputs];
      for (size_t n = 0; n < outputs; ++n) sum[n] = load(total + (m * outputs + n) * lane_count);
      sum4(sum, sums + m * outputs);
    }
}

/// The same for 1..tile_rows rows.
inline void multiply_rows(
    size_t rows, const float* x, const float* w, const tile_span& span, float* total, float* sums) {
  if (rows == tile_rows) return multiply_tile<tile_rows>(x, w, span, total, sums);
  if (rows == 1) return multiply_tile<1>(x, w, span, total, sums);
  if constexpr (tile_rows > 2)
    if (rows == 2) return multiply_tile<2>(x, w, span, total, sums);
  if constexpr (tile_rows > 3) {
    if (rows == 3) return multiply_tile<3>(x, w, span, total, sums);
    if (rows == 4) return multiply_tile<4>(x, w, span, total, sums);
    return multiply_tile<5>(x, w, span, total, sums);
  }
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
