#pragma once

#include "kernels/cpu/shuffle.hpp"

#include <limits>

/// Functions of sixteen lanes, with the same bits on every instruction set.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

inline constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// e^x within 2 units in the last place; 0 below -87, e^88 above 88; NaN stays NaN.
DEEPINFER_INLINE vec16 exp(vec16 x) {
  const vec16 clamped = min(max(x, all(-87.0f)), all(88.0f));
  // Adding 1.5 * 2^23 rounds to the nearest integer, which then sits in the low mantissa bits.
  const vec16 shifted = fma(clamped, all(1.44269504f), all(12582912.0f));
  const vec16 n = shifted - all(12582912.0f);
  // n * ln 2 in two pieces
  const vec16 r = fma(n, all(2.12194440e-4f), fma(n, all(-0.693359375f), clamped));
  vec16 p = all(1.0f / 5040);
  p = fma(p, r, all(1.0f / 720));
  p = fma(p, r, all(1.0f / 120));
  p = fma(p, r, all(1.0f / 24));
  p = fma(p, r, all(1.0f / 6));
  p = fma(p, r, all(0.5f));
  p = fma(p, r, all(1.0f));
  p = fma(p, r, all(1.0f));
  // The magic number's own bits leave with the shift but for a multiple of 2^31, cut off.
  const vec16 scaled = floats_of(bits_of(p) + shift_left<23>(bits_of(shifted)));
  const vec16 finite = select(x < all(-87.0f), all(0.0f), scaled);
  return select(x == x, finite, x);
}

/// 1 / (1 + e^-x)
DEEPINFER_INLINE vec16 sigmoid(vec16 x) {
  return all(1.0f) / (all(1.0f) + exp(all(0.0f) - x));
}

/// The largest lane; a NaN may or may not win.
DEEPINFER_INLINE float largest(vec16 x) {
  float lane[16];
  store(lane, x);
  float most = lane[0];
  for (int i = 1; i < 16; ++i) most = lane[i] > most ? lane[i] : most;
  return most;
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
