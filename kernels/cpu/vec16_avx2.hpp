#pragma once

#include "kernels/cpu/simd.hpp"

#include <immintrin.h>

/// `vec16.hpp` says what these mean.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

struct vec16 {
  __m256 a, b;  // lanes 0..7, 8..15
};
struct ivec16 {
  __m256i a, b;
};
struct mask16 {
  __m256 a, b;  // all bits of a lane set or none
};

DEEPINFER_INLINE uint32_t bits_of(mask16 m) {
  return static_cast<uint32_t>(_mm256_movemask_ps(m.a)) |
         static_cast<uint32_t>(_mm256_movemask_ps(m.b)) << 8;
}
DEEPINFER_INLINE mask16 first_lanes(size_t n) {
  const __m256i count = _mm256_set1_epi32(static_cast<int>(n < 16 ? n : 16));
  const __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i high = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(count, low)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(count, high))};
}
DEEPINFER_INLINE mask16 operator&(mask16 x, mask16 y) {
  return {_mm256_and_ps(x.a, y.a), _mm256_and_ps(x.b, y.b)};
}

DEEPINFER_INLINE vec16 all(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
DEEPINFER_INLINE vec16 load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
DEEPINFER_INLINE vec16 load_first(const float* p, size_t n) {
  const mask16 m = first_lanes(n);
  return {_mm256_maskload_ps(p, _mm256_castps_si256(m.a)),
          _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.b))};
}
DEEPINFER_INLINE void store(float* p, vec16 x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
DEEPINFER_INLINE void store_first(float* p, vec16 x, size_t n) {
  const mask16 m = first_lanes(n);
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.a), x.a);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.b), x.b);
}

DEEPINFER_INLINE vec16 operator+(vec16 x, vec16 y) {
  return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
DEEPINFER_INLINE vec16 operator-(vec16 x, vec16 y) {
  return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
DEEPINFER_INLINE vec16 operator*(vec16 x, vec16 y) {
  return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
DEEPINFER_INLINE vec16 operator/(vec16 x, vec16 y) {
  return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
DEEPINFER_INLINE vec16 fma(vec16 x, vec16 y, vec16 z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
DEEPINFER_INLINE vec16 sqrt(vec16 x) {
  return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)};
}
DEEPINFER_INLINE vec16 max(vec16 x, vec16 y) {
  return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
DEEPINFER_INLINE vec16 min(vec16 x, vec16 y) {
  return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
DEEPINFER_INLINE vec16 abs(vec16 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}

DEEPINFER_INLINE mask16 operator<(vec16 x, vec16 y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
}
DEEPINFER_INLINE mask16 operator>(vec16 x, vec16 y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_GT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_GT_OQ)};
}
DEEPINFER_INLINE mask16 operator>=(vec16 x, vec16 y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_GE_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_GE_OQ)};
}
DEEPINFER_INLINE mask16 operator==(vec16 x, vec16 y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_EQ_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_EQ_OQ)};
}
DEEPINFER_INLINE vec16 select(mask16 m, vec16 yes, vec16 no) {
  return {_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)};
}

DEEPINFER_INLINE ivec16 all_i(uint32_t x) {
  return {_mm256_set1_epi32(static_cast<int>(x)), _mm256_set1_epi32(static_cast<int>(x))};
}
DEEPINFER_INLINE ivec16 load_i(const uint32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
DEEPINFER_INLINE void store_i(uint32_t* p, ivec16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), x.b);
}
DEEPINFER_INLINE ivec16 load_bytes(const uint8_t* p) {
  __m128i b;
  std::memcpy(&b, p, sizeof b);
  return {_mm256_cvtepu8_epi32(b), _mm256_cvtepu8_epi32(_mm_srli_si128(b, 8))};
}
DEEPINFER_INLINE ivec16 load_halves(const uint8_t* p) {
  __m128i h[2];
  std::memcpy(h, p, sizeof h);
  return {_mm256_cvtepu16_epi32(h[0]), _mm256_cvtepu16_epi32(h[1])};
}
DEEPINFER_INLINE ivec16 bits_of(vec16 x) {
  return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)};
}
DEEPINFER_INLINE vec16 floats_of(ivec16 x) {
  return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}
DEEPINFER_INLINE vec16 to_float(ivec16 x) {
  return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}
DEEPINFER_INLINE ivec16 operator+(ivec16 x, ivec16 y) {
  return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
DEEPINFER_INLINE ivec16 operator-(ivec16 x, ivec16 y) {
  return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)};
}
DEEPINFER_INLINE ivec16 operator&(ivec16 x, ivec16 y) {
  return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
}
DEEPINFER_INLINE ivec16 operator|(ivec16 x, ivec16 y) {
  return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
DEEPINFER_INLINE ivec16 operator^(ivec16 x, ivec16 y) {
  return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)};
}
template <int N>
DEEPINFER_INLINE ivec16 shift_left(ivec16 x) {
  return {_mm256_slli_epi32(x.a, N), _mm256_slli_epi32(x.b, N)};
}
template <int N>
DEEPINFER_INLINE ivec16 shift_right(ivec16 x) {
  return {_mm256_srli_epi32(x.a, N), _mm256_srli_epi32(x.b, N)};
}
DEEPINFER_INLINE mask16 operator>(ivec16 x, ivec16 y) {
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(x.a, y.a)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(x.b, y.b))};
}
DEEPINFER_INLINE mask16 operator==(ivec16 x, ivec16 y) {
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(x.a, y.a)),
          _mm256_castsi256_ps(_mm256_cmpeq_epi32(x.b, y.b))};
}
DEEPINFER_INLINE ivec16 select(mask16 m, ivec16 yes, ivec16 no) {
  return bits_of(select(m, floats_of(yes), floats_of(no)));
}

DEEPINFER_INLINE float sum(vec16 x) {
  const __m256 eight = _mm256_add_ps(x.a, x.b);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

DEEPINFER_INLINE void sum4(const vec16 (&x)[4], float* out) {
  __m128 four[4];
  for (size_t i = 0; i < 4; ++i) {
    const __m256 eight = _mm256_add_ps(x[i].a, x[i].b);
    four[i] = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  }
  const __m128 ab = _mm_add_ps(_mm_movelh_ps(four[0], four[1]), _mm_movehl_ps(four[1], four[0]));
  const __m128 cd = _mm_add_ps(_mm_movelh_ps(four[2], four[3]), _mm_movehl_ps(four[3], four[2]));
  _mm_storeu_ps(out, _mm_add_ps(_mm_shuffle_ps(ab, cd, 0x88), _mm_shuffle_ps(ab, cd, 0xDD)));
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
