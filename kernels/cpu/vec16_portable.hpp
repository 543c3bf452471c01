#pragma once

#include "kernels/cpu/simd.hpp"

#include <bit>
#include <cmath>

/// `vec16.hpp` says what these mean.
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

struct vec16 {
  float v[16];
};
struct ivec16 {
  uint32_t v[16];
};
struct mask16 {
  uint32_t v;  // bit i for lane i
};

namespace lanewise {
template <class Out, class F>
DEEPINFER_INLINE Out make(const F& lane) {
  Out out;
  for (size_t i = 0; i < 16; ++i) out.v[i] = lane(i);
  return out;
}
template <class F>
DEEPINFER_INLINE mask16 test(const F& lane) {
  uint32_t bits = 0;
  for (size_t i = 0; i < 16; ++i) bits |= static_cast<uint32_t>(lane(i)) << i;
  return {bits};
}
}  // namespace lanewise

inline uint32_t bits_of(mask16 m) {
  return m.v;
}
inline mask16 first_lanes(size_t n) {
  return {n >= 16 ? 0xFFFFu : (1u << n) - 1};
}
inline mask16 operator&(mask16 a, mask16 b) {
  return {a.v & b.v};
}

inline vec16 all(float x) {
  return lanewise::make<vec16>([&](size_t) { return x; });
}
inline vec16 load(const float* p) {
  vec16 out;
  std::memcpy(out.v, p, sizeof out.v);
  return out;
}
inline vec16 load_first(const float* p, size_t n) {
  return lanewise::make<vec16>([&](size_t i) { return i < n ? p[i] : 0.0f; });
}
inline void store(float* p, vec16 a) {
  std::memcpy(p, a.v, sizeof a.v);
}
inline void store_first(float* p, vec16 a, size_t n) {
  std::memcpy(p, a.v, (n < 16 ? n : 16) * sizeof(float));
}

inline vec16 operator+(vec16 a, vec16 b) {
  return lanewise::make<vec16>([&](size_t i) { return a.v[i] + b.v[i]; });
}
inline vec16 operator-(vec16 a, vec16 b) {
  return lanewise::make<vec16>([&](size_t i) { return a.v[i] - b.v[i]; });
}
inline vec16 operator*(vec16 a, vec16 b) {
  return lanewise::make<vec16>([&](size_t i) { return a.v[i] * b.v[i]; });
}
inline vec16 operator/(vec16 a, vec16 b) {
  return lanewise::make<vec16>([&](size_t i) { return a.v[i] / b.v[i]; });
}
inline vec16 fma(vec16 a, vec16 b, vec16 c) {
  return lanewise::make<vec16>([&](size_t i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}
inline vec16 sqrt(vec16 a) {
  return lanewise::make<vec16>([&](size_t i) { return std::sqrt(a.v[i]); });
}
inline vec16 max(vec16 a, vec16 b) {
  return lanewise::make<vec16>([&](size_t i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline vec16 min(vec16 a, vec16 b) {
  return lanewise::make<vec16>([&](size_t i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline vec16 abs(vec16 a) {
  return lanewise::make<vec16>([&](size_t i) { return std::fabs(a.v[i]); });
}

inline mask16 operator<(vec16 a, vec16 b) {
  return lanewise::test([&](size_t i) { return a.v[i] < b.v[i]; });
}
inline mask16 operator>(vec16 a, vec16 b) {
  return lanewise::test([&](size_t i) { return a.v[i] > b.v[i]; });
}
inline mask16 operator>=(vec16 a, vec16 b) {
  return lanewise::test([&](size_t i) { return a.v[i] >= b.v[i]; });
}
inline mask16 operator==(vec16 a, vec16 b) {
  return lanewise::test([&](size_t i) { return a.v[i] == b.v[i]; });
}
inline vec16 select(mask16 m, vec16 yes, vec16 no) {
  return lanewise::make<vec16>([&](size_t i) { return (m.v >> i & 1) != 0 ? yes.v[i] : no.v[i]; });
}

inline ivec16 all_i(uint32_t x) {
  return lanewise::make<ivec16>([&](size_t) { return x; });
}
inline ivec16 load_i(const uint32_t* p) {
  ivec16 out;
  std::memcpy(out.v, p, sizeof out.v);
  return out;
}
inline void store_i(uint32_t* p, ivec16 a) {
  std::memcpy(p, a.v, sizeof a.v);
}
inline ivec16 load_bytes(const uint8_t* p) {
  return lanewise::make<ivec16>([&](size_t i) { return uint32_t{p[i]}; });
}
inline ivec16 load_halves(const uint8_t* p) {
  uint16_t half[16];
  std::memcpy(half, p, sizeof half);
  return lanewise::make<ivec16>([&](size_t i) { return uint32_t{half[i]}; });
}
inline ivec16 bits_of(vec16 a) {
  return std::bit_cast<ivec16>(a);
}
inline vec16 floats_of(ivec16 a) {
  return std::bit_cast<vec16>(a);
}
inline vec16 to_float(ivec16 a) {
  return lanewise::make<vec16>(
      [&](size_t i) { return static_cast<float>(static_cast<int32_t>(a.v[i])); });
}
inline ivec16 operator+(ivec16 a, ivec16 b) {
  return lanewise::make<ivec16>([&](size_t i) { return a.v[i] + b.v[i]; });
}
inline ivec16 operator-(ivec16 a, ivec16 b) {
  return lanewise::make<ivec16>([&](size_t i) { return a.v[i] - b.v[i]; });
}
inline ivec16 operator&(ivec16 a, ivec16 b) {
  return lanewise::make<ivec16>([&](size_t i) { return a.v[i] & b.v[i]; });
}
inline ivec16 operator|(ivec16 a, ivec16 b) {
  return lanewise::make<ivec16>([&](size_t i) { return a.v[i] | b.v[i]; });
}
inline ivec16 operator^(ivec16 a, ivec16 b) {
  return lanewise::make<ivec16>([&](size_t i) { return a.v[i] ^ b.v[i]; });
}
template <int N>
inline ivec16 shift_left(ivec16 a) {
  return lanewise::make<ivec16>([&](size_t i) { return a.v[i] << N; });
}
template <int N>
inline ivec16 shift_right(ivec16 a) {
  return lanewise::make<ivec16>([&](size_t i) { return a.v[i] >> N; });
}
inline mask16 operator>(ivec16 a, ivec16 b) {
  return lanewise::test(
      [&](size_t i) { return static_cast<int32_t>(a.v[i]) > static_cast<int32_t>(b.v[i]); });
}
inline mask16 operator==(ivec16 a, ivec16 b) {
  return lanewise::test([&](size_t i) { return a.v[i] == b.v[i]; });
}
inline ivec16 select(mask16 m, ivec16 yes, ivec16 no) {
  return lanewise::make<ivec16>([&](size_t i) { return (m.v >> i & 1) != 0 ? yes.v[i] : no.v[i]; });
}

inline float sum(vec16 a) {
  float eight[8], four[4];
  for (size_t i = 0; i < 8; ++i) eight[i] = a.v[i] + a.v[i + 8];
  for (size_t i = 0; i < 4; ++i) four[i] = eight[i] + eight[i + 4];
  return (four[0] + four[2]) + (four[1] + four[3]);
}

inline void sum4(const vec16 (&a)[4], float* out) {
  for (size_t i = 0; i < 4; ++i) out[i] = sum(a[i]);
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
