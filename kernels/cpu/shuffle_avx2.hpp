#pragma once

#include "kernels/cpu/vec16.hpp"

/// `shuffle.hpp` says what these mean.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

inline constexpr bool many_registers = false;

DEEPINFER_INLINE void in_register(vec16& x) {
  asm("" : "+x"(x.a), "+x"(x.b));
}

namespace shuffling {
struct add_both {
  DEEPINFER_INLINE __m256 operator()(__m256 x, __m256 y) const { return _mm256_add_ps(x, y); }
};
struct larger_of_both {
  DEEPINFER_INLINE __m256 operator()(__m256 x, __m256 y) const { return _mm256_max_ps(x, y); }
};
// Eight vectors become the lanes of one, each joined by halves: 0 with 8, then 0 with 4, ..
template <class Join>
DEEPINFER_INLINE __m256 reduce8(const vec16* v, const Join& join) {
  const auto fours = [&](const vec16& x, const vec16& y) {
    const __m256 a = join(x.a, x.b), b = join(y.a, y.b);
    return join(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
  };
  const auto twos = [&](__m256 x, __m256 y) {
    return join(_mm256_shuffle_ps(x, y, 0x44), _mm256_shuffle_ps(x, y, 0xEE));
  };
  const __m256 x = twos(fours(v[0], v[4]), fours(v[1], v[5]));
  const __m256 y = twos(fours(v[2], v[6]), fours(v[3], v[7]));
  return join(_mm256_shuffle_ps(x, y, 0x88), _mm256_shuffle_ps(x, y, 0xDD));
}
DEEPINFER_INLINE void transpose8(__m256i (&v)[8]) {
  __m256i a[8], b[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_epi32(v[i], v[i + 1]);
    a[i + 1] = _mm256_unpackhi_epi32(v[i], v[i + 1]);
  }
  for (int i = 0; i < 8; i += 4)
    for (int k = 0; k < 2; ++k) {
      b[i + 2 * k] = _mm256_unpacklo_epi64(a[i + k], a[i + k + 2]);
      b[i + 2 * k + 1] = _mm256_unpackhi_epi64(a[i + k], a[i + k + 2]);
    }
  for (int k = 0; k < 4; ++k) {
    v[k] = _mm256_permute2x128_si256(b[k], b[4 + k], 0x20);
    v[4 + k] = _mm256_permute2x128_si256(b[k], b[4 + k], 0x31);
  }
}

// For every choice of eight lanes their numbers, in order, one byte each.
struct lane_lists {
  uint64_t list[256];
};
inline constexpr lane_lists chosen_lanes = [] {
  lane_lists all{};
  for (uint32_t mask = 0; mask < 256; ++mask)
    for (uint64_t lane = 0, at = 0; lane < 8; ++lane)
      if ((mask >> lane & 1) != 0) all.list[mask] |= lane << (8 * at++);
  return all;
}();
DEEPINFER_INLINE size_t compress8(uint32_t* p, __m256i x, uint32_t mask) {
  const __m256i lanes =
      _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(chosen_lanes.list[mask])));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permutevar8x32_epi32(x, lanes));
  return static_cast<size_t>(__builtin_popcount(mask));
}
}  // namespace shuffling

DEEPINFER_INLINE vec16 sums(const vec16 (&v)[16]) {
  return {shuffling::reduce8(v, shuffling::add_both{}),
          shuffling::reduce8(v + 8, shuffling::add_both{})};
}

DEEPINFER_INLINE vec16 maxima(const vec16 (&v)[16]) {
  return {shuffling::reduce8(v, shuffling::larger_of_both{}),
          shuffling::reduce8(v + 8, shuffling::larger_of_both{})};
}

DEEPINFER_INLINE void transpose(ivec16 (&v)[16]) {
  __m256i quarter[2][2][8];  // [rows][columns]
  for (int i = 0; i < 16; ++i) {
    quarter[i / 8][0][i % 8] = v[i].a;
    quarter[i / 8][1][i % 8] = v[i].b;
  }
  for (auto& half : quarter)
    for (auto& block : half) shuffling::transpose8(block);
  for (int i = 0; i < 16; ++i) v[i] = {quarter[0][i / 8][i % 8], quarter[1][i / 8][i % 8]};
}

DEEPINFER_INLINE void interleave(vec16 even, vec16 odd, vec16& first, vec16& second) {
  const auto both = [](__m256 x, __m256 y) {
    const __m256 low = _mm256_unpacklo_ps(x, y), high = _mm256_unpackhi_ps(x, y);
    return vec16{_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
  };
  first = both(even.a, odd.a);
  second = both(even.b, odd.b);
}

DEEPINFER_INLINE vec16 swap_neighbours(vec16 x) {
  return {_mm256_permute_ps(x.a, 0xB1), _mm256_permute_ps(x.b, 0xB1)};
}

DEEPINFER_INLINE vec16 pick8(vec16 table, ivec16 index) {
  return {_mm256_permutevar8x32_ps(table.a, index.a), _mm256_permutevar8x32_ps(table.a, index.b)};
}

DEEPINFER_INLINE void multiply_wide(ivec16 x, ivec16 factor, ivec16& high, ivec16& low) {
  const auto half = [](__m256i a, __m256i b, __m256i& upper, __m256i& lower) {
    const __m256i even = _mm256_mul_epu32(a, b);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), b);
    lower = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
    upper = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
  };
  half(x.a, factor.a, high.a, low.a);
  half(x.b, factor.b, high.b, low.b);
}

DEEPINFER_INLINE ivec16 to_whole(vec16 x) {
  return {_mm256_cvttps_epi32(x.a), _mm256_cvttps_epi32(x.b)};
}

DEEPINFER_INLINE void store_bytes(uint8_t* p, ivec16 x) {
  const __m256i byte = _mm256_set1_epi32(0xFF);
  const __m256i halves =
      _mm256_packus_epi32(_mm256_and_si256(x.a, byte), _mm256_and_si256(x.b, byte));
  const __m256i ordered = _mm256_permute4x64_epi64(halves, 0xD8);
  const __m128i bytes =
      _mm_packus_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
  std::memcpy(p, &bytes, sizeof bytes);
}

DEEPINFER_INLINE mask16 mask_of(uint32_t bits) {
  const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const auto half = [&](uint32_t eight) {
    const __m256i all = _mm256_set1_epi32(static_cast<int>(eight));
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(all, lane), lane));
  };
  return {half(bits & 0xFF), half(bits >> 8)};
}

DEEPINFER_INLINE size_t compress(uint32_t* p, ivec16 x, mask16 m) {
  const uint32_t bits = bits_of(m);
  const size_t low = shuffling::compress8(p, x.a, bits & 0xFF);
  return low + shuffling::compress8(p + low, x.b, bits >> 8);
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
