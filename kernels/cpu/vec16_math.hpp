#pragma once

#include "kernels/cpu/shuffle.hpp"

#include <limits>

/// Functions of sixteen lanes, with the same bits on every instruction set.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

inline constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// `portable_exp_float`, lane by lane.
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

/// The lanes of one step of `over_lanes`: all, or the first ones of the tail.
struct all_lanes {
  static constexpr size_t count = lane_count;
};
struct tail_lanes {
  size_t count;
};
DEEPINFER_INLINE vec16 load(const float* p, all_lanes) {
  return load(p);
}
DEEPINFER_INLINE vec16 load(const float* p, tail_lanes t) {
  return load_first(p, t.count);
}
DEEPINFER_INLINE void store(float* p, vec16 x, all_lanes) {
  store(p, x);
}
DEEPINFER_INLINE void store(float* p, vec16 x, tail_lanes t) {
  store_first(p, x, t.count);
}

/// step(c, lanes) for c = 0, 16, .. below n.
template <class Step>
DEEPINFER_INLINE void over_lanes(size_t n, const Step& step) {
  size_t c = 0;
  for (; c + lane_count <= n; c += lane_count) step(c, all_lanes{});
  if (c < n) step(c, tail_lanes{n - c});
}

/// Four running sums of sixteen lanes hide the latency of an addition: element i goes to lane
/// i mod 16 of sum (i / 16) mod 4, and in the end (0 + 1) + (2 + 3).
struct long_sum {
  vec16 part[4];
  // written out: a constructor the compiler adds would not be compiled for the instruction set
  DEEPINFER_INLINE long_sum() {
    for (vec16& p : part) p = all(0.0f);
  }
  [[nodiscard]] DEEPINFER_INLINE float total() const {
    return sum((part[0] + part[1]) + (part[2] + part[3]));
  }
};

/// x . x in the order of `long_sum`.
DEEPINFER_INLINE float sum_of_squares(const float* x, size_t n) {
  long_sum s;
  size_t i = 0;
  for (; i + 64 <= n; i += 64)
    for (size_t k = 0; k < 4; ++k) {
      const vec16 v = load(x + i + 16 * k);
      s.part[k] = fma(v, v, s.part[k]);
    }
  for (size_t k = 0; i < n; i += 16, ++k) {
    const vec16 v = load_first(x + i, n - i);
    s.part[k] = fma(v, v, s.part[k]);
  }
  return s.total();
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
