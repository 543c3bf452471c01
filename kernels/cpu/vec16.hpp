#pragma once

#include "kernels/api/number_formats.hpp"
#include "kernels/cpu/simd.hpp"

/// Sixteen logical lanes of fp32, the same on every instruction set: one AVX-512 register, two AVX2
/// ones, or an array. A sum over k runs element k in lane k mod 16, by fused multiply-adds in
/// ascending k, and ends in the one tree of `sum`; so every instruction set gives the same bits.
///
///   vec16, ivec16 (uint32 lanes, compared as signed), mask16
///   all, load, load_first(p, n) (the other lanes 0, not read), store, store_first
///   + - * /, sqrt, abs, fma(a, b, c) = a b + c rounded once
///   max(a, b) = a > b ? a : b, min likewise: a NaN in `a` gives b
///   < > >= == (false with NaN), select(mask, yes, no), bits_of(mask16), first_lanes(n)
///   all_i, load_i, store_i, load_bytes (16 uint8), load_halves (16 uint16), bits_of / floats_of
///   (the same bits), to_float (signed), + - & | ^ > ==, shift_left<n>, shift_right<n>
///   sum: 0+8 .. 7+15, then 0+4 .. 3+7, then (0+2) + (1+3); sum4: four of them
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

inline constexpr size_t lane_count = 16;

/// Nearest bf16, ties to even, as `bf16_bits`; NaN stays NaN.
DEEPINFER_INLINE vec16 round_bf16(vec16 a) {
  const ivec16 bits = bits_of(a);
  const ivec16 odd = shift_right<16>(bits) & all_i(1);
  const ivec16 near = (bits + all_i(0x7FFF) + odd) & all_i(0xFFFF0000u);
  const ivec16 quiet = (bits | all_i(0x400000)) & all_i(0xFFFF0000u);
  return floats_of(select(a == a, near, quiet));
}

DEEPINFER_INLINE vec16 round_to(vec16 a, rounding to) {
  return to == rounding::bf16 ? round_bf16(a) : a;
}

/// x . y in the order above.
DEEPINFER_INLINE float dot(const float* x, const float* y, size_t n) {
  vec16 total = all(0.0f);
  size_t i = 0;
  for (; i + lane_count <= n; i += lane_count) total = fma(load(x + i), load(y + i), total);
  if (i < n) total = fma(load_first(x + i, n - i), load_first(y + i, n - i), total);
  return sum(total);
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
