#pragma once

#include "kernels/cpu/vec16.hpp"

/// `shuffle.hpp` says what these mean.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

/// Vectors that fit into registers beside what a loop needs itself.
inline constexpr bool many_registers = true;

/// Keeps a value in a register: without it the compiler reads it from memory again at each use.
DEEPINFER_INLINE void in_register(vec16& x) {
  asm("" : "+v"(x.v));
}

namespace shuffling {
struct add_both {
  DEEPINFER_INLINE __m512 operator()(__m512 x, __m512 y) const { return _mm512_add_ps(x, y); }
};
struct larger_of_both {
  DEEPINFER_INLINE __m512 operator()(__m512 x, __m512 y) const { return _mm512_max_ps(x, y); }
};
// Sixteen vectors become the lanes of one, each joined by halves: 0 with 8, then 0 with 4, ..
template <class Join>
DEEPINFER_INLINE vec16 reduce(const vec16 (&v)[16], const Join& join) {
  const auto halves = [&](__m512 x, __m512 y) {
    return join(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xEE));
  };
  // Each 128-bit part of fours[j] ends as the four partial results of one of v[j], v[4 + j], ...
  __m512 fours[4], twos[2];
  for (int j = 0; j < 4; ++j) {
    const __m512 x = halves(v[j].v, v[4 + j].v), y = halves(v[8 + j].v, v[12 + j].v);
    fours[j] = join(_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xDD));
  }
  for (int j = 0; j < 2; ++j)
    twos[j] = join(_mm512_shuffle_ps(fours[2 * j], fours[2 * j + 1], 0x44),
                   _mm512_shuffle_ps(fours[2 * j], fours[2 * j + 1], 0xEE));
  return {
      join(_mm512_shuffle_ps(twos[0], twos[1], 0x88), _mm512_shuffle_ps(twos[0], twos[1], 0xDD))};
}
}  // namespace shuffling

DEEPINFER_INLINE vec16 sums(const vec16 (&v)[16]) {
  return shuffling::reduce(v, shuffling::add_both{});
}

DEEPINFER_INLINE vec16 maxima(const vec16 (&v)[16]) {
  return shuffling::reduce(v, shuffling::larger_of_both{});
}

DEEPINFER_INLINE void transpose(ivec16 (&v)[16]) {
  __m512i a[16], b[16];
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_epi32(v[i].v, v[i + 1].v);
    a[i + 1] = _mm512_unpackhi_epi32(v[i].v, v[i + 1].v);
  }
  for (int i = 0; i < 16; i += 4)
    for (int k = 0; k < 2; ++k) {
      b[i + 2 * k] = _mm512_unpacklo_epi64(a[i + k], a[i + k + 2]);
      b[i + 2 * k + 1] = _mm512_unpackhi_epi64(a[i + k], a[i + k + 2]);
    }
  // b[4g + k] part p holds column 4p + k of rows 4g .. 4g + 3
  for (int k = 0; k < 4; ++k) {
    const __m512i low = _mm512_shuffle_i32x4(b[k], b[4 + k], 0x88);
    const __m512i high = _mm512_shuffle_i32x4(b[k], b[4 + k], 0xDD);
    const __m512i low2 = _mm512_shuffle_i32x4(b[8 + k], b[12 + k], 0x88);
    const __m512i high2 = _mm512_shuffle_i32x4(b[8 + k], b[12 + k], 0xDD);
    v[k].v = _mm512_shuffle_i32x4(low, low2, 0x88);
    v[8 + k].v = _mm512_shuffle_i32x4(low, low2, 0xDD);
    v[4 + k].v = _mm512_shuffle_i32x4(high, high2, 0x88);
    v[12 + k].v = _mm512_shuffle_i32x4(high, high2, 0xDD);
  }
}

DEEPINFER_INLINE void interleave(vec16 even, vec16 odd, vec16& first, vec16& second) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  first = {_mm512_permutex2var_ps(even.v, low, odd.v)};
  second = {_mm512_permutex2var_ps(even.v, _mm512_add_epi32(low, _mm512_set1_epi32(8)), odd.v)};
}

DEEPINFER_INLINE vec16 swap_neighbours(vec16 x) {
  return {_mm512_permute_ps(x.v, 0xB1)};
}

DEEPINFER_INLINE vec16 pick8(vec16 table, ivec16 index) {
  return {_mm512_permutexvar_ps(_mm512_and_si512(index.v, _mm512_set1_epi32(7)), table.v)};
}

DEEPINFER_INLINE void multiply_wide(ivec16 x, ivec16 factor, ivec16& high, ivec16& low) {
  const __m512i even = _mm512_mul_epu32(x.v, factor.v);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(x.v, 32), factor.v);
  low = {_mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32))};
  high = {_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd)};
}

DEEPINFER_INLINE ivec16 to_whole(vec16 x) {
  return {_mm512_cvttps_epi32(x.v)};
}

DEEPINFER_INLINE void store_bytes(uint8_t* p, ivec16 x) {
  const __m128i bytes = _mm512_cvtepi32_epi8(x.v);
  std::memcpy(p, &bytes, sizeof bytes);
}

DEEPINFER_INLINE mask16 mask_of(uint32_t bits) {
  return {static_cast<__mmask16>(bits)};
}

DEEPINFER_INLINE size_t compress(uint32_t* p, ivec16 x, mask16 m) {
  _mm512_storeu_si512(p, _mm512_maskz_compress_epi32(m.v, x.v));
  return static_cast<size_t>(__builtin_popcount(m.v));
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
