#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

/// Eight independent partial sums, element i going to lane i mod 8: the compiler may use whatever
/// vectors it has without reordering a single addition.
namespace deepinfer::kernels::cpu {

inline constexpr size_t lanes = 8;

using f32x4 = float __attribute__((vector_size(16)));

inline f32x4 load4(const float* p) {
  f32x4 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline void store4(float* p, f32x4 v) {
  std::memcpy(p, &v, sizeof v);
}

inline f32x4 all4(float v) {
  return f32x4{v, v, v, v};
}

/// The one order in which lanes become a number: 0+4, 1+5, 2+6, 3+7, then halves again.
inline float sum_lanes(f32x4 low, f32x4 high) {
  const f32x4 s = low + high;
  return (s[0] + s[2]) + (s[1] + s[3]);
}

/// x . y, tail elements added last.
inline float dot(const float* x, const float* y, size_t n) {
  f32x4 low{}, high{};
  const size_t whole = n - n % lanes;
  for (size_t i = 0; i < whole; i += lanes) {
    low += load4(x + i) * load4(y + i);
    high += load4(x + i + 4) * load4(y + i + 4);
  }
  float sum = sum_lanes(low, high);
  for (size_t i = whole; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

/// e^x in fp32, within 2 units in the last place; 0 below -87, clamped above 88. Free of branches,
/// so a loop over it vectorises.
inline float exp_lane(float x) {
  const float clamped = x > 88.0f ? 88.0f : (x < -87.0f ? -87.0f : x);
  // Adding 1.5 * 2^23 rounds to the nearest integer, which then sits in the low mantissa bits.
  const float shifted = clamped * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;  // n * ln 2 in two pieces
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) - 0x4B400000u;
  const float scaled = std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (exponent << 23));
  const float finite = x < -87.0f ? 0.0f : scaled;
  return x == x ? finite : x;  // NaN stays NaN
}

}  // namespace deepinfer::kernels::cpu
