#pragma once

#include "kernels/cpu/simd.hpp"

#include <immintrin.h>

/// `vec16.hpp` says what these mean.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

struct vec16 {
  __m512 v;
};
struct ivec16 {
  __m512i v;
};
struct mask16 {
  __mmask16 v;
};

DEEPINFER_INLINE uint32_t bits_of(mask16 m) {
  return m.v;
}
DEEPINFER_INLINE mask16 first_lanes(size_t n) {
  return {static_cast<__mmask16>(n >= 16 ? 0xFFFFu : (1u << n) - 1)};
}
DEEPINFER_INLINE mask16 operator&(mask16 a, mask16 b) {
  return {static_cast<__mmask16>(a.v & b.v)};
}

DEEPINFER_INLINE vec16 all(float x) {
  return {_mm512_set1_ps(x)};
}
DEEPINFER_INLINE vec16 load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
DEEPINFER_INLINE vec16 load_first(const float* p, size_t n) {
  return {_mm512_maskz_loadu_ps(first_lanes(n).v, p)};
}
DEEPINFER_INLINE void store(float* p, vec16 a) {
  _mm512_storeu_ps(p, a.v);
}
DEEPINFER_INLINE void store_first(float* p, vec16 a, size_t n) {
  _mm512_mask_storeu_ps(p, first_lanes(n).v, a.v);
}

DEEPINFER_INLINE vec16 operator+(vec16 a, vec16 b) {
  return {_mm512_add_ps(a.v, b.v)};
}
DEEPINFER_INLINE vec16 operator-(vec16 a, vec16 b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
DEEPINFER_INLINE vec16 operator*(vec16 a, vec16 b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
DEEPINFER_INLINE vec16 operator/(vec16 a, vec16 b) {
  return {_mm512_div_ps(a.v, b.v)};
}
DEEPINFER_INLINE vec16 fma(vec16 a, vec16 b, vec16 c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
DEEPINFER_INLINE vec16 sqrt(vec16 a) {
  return {_mm512_sqrt_ps(a.v)};
}
DEEPINFER_INLINE vec16 max(vec16 a, vec16 b) {
  return {_mm512_max_ps(a.v, b.v)};
}
DEEPINFER_INLINE vec16 min(vec16 a, vec16 b) {
  return {_mm512_min_ps(a.v, b.v)};
}
DEEPINFER_INLINE vec16 abs(vec16 a) {
  return {_mm512_abs_ps(a.v)};
}

DEEPINFER_INLINE mask16 operator<(vec16 a, vec16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
}
DEEPINFER_INLINE mask16 operator>(vec16 a, vec16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)};
}
DEEPINFER_INLINE mask16 operator>=(vec16 a, vec16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)};
}
DEEPINFER_INLINE mask16 operator==(vec16 a, vec16 b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)};
}
DEEPINFER_INLINE vec16 select(mask16 m, vec16 yes, vec16 no) {
  return {_mm512_mask_blend_ps(m.v, no.v, yes.v)};
}

DEEPINFER_INLINE ivec16 all_i(uint32_t x) {
  return {_mm512_set1_epi32(static_cast<int>(x))};
}
DEEPINFER_INLINE ivec16 load_i(const uint32_t* p) {
  return {_mm512_loadu_si512(p)};
}
DEEPINFER_INLINE void store_i(uint32_t* p, ivec16 a) {
  _mm512_storeu_si512(p, a.v);
}
DEEPINFER_INLINE ivec16 load_bytes(const uint8_t* p) {
  __m128i b;
  std::memcpy(&b, p, sizeof b);
  return {_mm512_cvtepu8_epi32(b)};
}
DEEPINFER_INLINE ivec16 load_halves(const uint8_t* p) {
  __m256i h;
  std::memcpy(&h, p, sizeof h);
  return {_mm512_cvtepu16_epi32(h)};
}
DEEPINFER_INLINE ivec16 bits_of(vec16 a) {
  return {_mm512_castps_si512(a.v)};
}
DEEPINFER_INLINE vec16 floats_of(ivec16 a) {
  return {_mm512_castsi512_ps(a.v)};
}
DEEPINFER_INLINE vec16 to_float(ivec16 a) {
  return {_mm512_cvtepi32_ps(a.v)};
}
DEEPINFER_INLINE ivec16 operator+(ivec16 a, ivec16 b) {
  return {_mm512_add_epi32(a.v, b.v)};
}
DEEPINFER_INLINE ivec16 operator-(ivec16 a, ivec16 b) {
  return {_mm512_sub_epi32(a.v, b.v)};
}
DEEPINFER_INLINE ivec16 operator&(ivec16 a, ivec16 b) {
  return {_mm512_and_si512(a.v, b.v)};
}
DEEPINFER_INLINE ivec16 operator|(ivec16 a, ivec16 b) {
  return {_mm512_or_si512(a.v, b.v)};
}
DEEPINFER_INLINE ivec16 operator^(ivec16 a, ivec16 b) {
  return {_mm512_xor_si512(a.v, b.v)};
}
template <int N>
DEEPINFER_INLINE ivec16 shift_left(ivec16 a) {
  return {_mm512_slli_epi32(a.v, N)};
}
template <int N>
DEEPINFER_INLINE ivec16 shift_right(ivec16 a) {
  return {_mm512_srli_epi32(a.v, N)};
}
DEEPINFER_INLINE mask16 operator>(ivec16 a, ivec16 b) {
  return {_mm512_cmpgt_epi32_mask(a.v, b.v)};
}
DEEPINFER_INLINE mask16 operator==(ivec16 a, ivec16 b) {
  return {_mm512_cmpeq_epi32_mask(a.v, b.v)};
}
DEEPINFER_INLINE ivec16 select(mask16 m, ivec16 yes, ivec16 no) {
  return {_mm512_mask_blend_epi32(m.v, no.v, yes.v)};
}

DEEPINFER_INLINE float sum(vec16 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

DEEPINFER_INLINE void sum4(const vec16 (&a)[4], float* out) {
  const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a[0].v, a[1].v, 0x44),
                                  _mm512_shuffle_f32x4(a[0].v, a[1].v, 0xEE));
  const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(a[2].v, a[3].v, 0x44),
                                  _mm512_shuffle_f32x4(a[2].v, a[3].v, 0xEE));
  const __m512 four =
      _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
  const __m512 two = _mm512_add_ps(four, _mm512_permute_ps(four, 0x4E));
  const __m512 one = _mm512_add_ps(two, _mm512_permute_ps(two, 0xB1));
  const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, one)));
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
