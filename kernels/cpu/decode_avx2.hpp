#pragma once

#include "kernels/cpu/decode.hpp"

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

template <>
struct decoder<weight_format::fp8> {
  // As the half with the same bits a code means its value / 256, subnormals included.
  DEEPINFER_INLINE static vec16 halves(const uint8_t* values) {
    __m128i codes;
    std::memcpy(&codes, values, sizeof codes);
    const __m256i wide = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
    const __m256i nan = _mm256_set1_epi16(0x3F80);
    const __m256i is_nan = _mm256_cmpeq_epi16(_mm256_and_si256(wide, nan), nan);
    const __m256i half =
        _mm256_or_si256(_mm256_and_si256(wide, _mm256_set1_epi16(static_cast<short>(0xBFFF))),
                        _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7C00)));
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)),
            _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
  }

  DEEPINFER_INLINE void block(const uint8_t* values, const uint8_t* scales, vec16 (&w)[4]) const {
    for (size_t t = 0; t < 4; ++t) {
      const float scale = decoding.scale[scales[t / 2]];
      // 256 * scale is no float for the largest scales: those take two exact steps.
      const bool large = scale > 0x1p118f;
      w[t] = halves(values + 16 * t) * all(large ? 256.0f : scale * 256.0f);
      if (__builtin_expect(large, 0)) w[t] = w[t] * all(scale);
    }
  }
};

template <>
struct decoder<weight_format::fp4> {
  __m256 table;  // the magnitudes
  __m256i nibbles, sign;

  // Spelt out: a constructor that the compiler writes is not compiled for the instruction set.
  DEEPINFER_INLINE decoder()
      : table(_mm256_loadu_ps(decoding.e2m1)),
        nibbles(_mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28)),
        sign(_mm256_set1_epi32(static_cast<int>(0x80000000u))) {}

  DEEPINFER_INLINE __m256 eight(const uint8_t* values, __m256 scaled) const {
    int codes;
    std::memcpy(&codes, values, sizeof codes);
    const __m256i index = _mm256_srlv_epi32(_mm256_set1_epi32(codes), nibbles);
    const __m256i signs = _mm256_and_si256(_mm256_slli_epi32(index, 28), sign);
    return _mm256_or_ps(_mm256_permutevar8x32_ps(scaled, index), _mm256_castsi256_ps(signs));
  }

  DEEPINFER_INLINE void block(const uint8_t* values, const uint8_t* scales, vec16 (&w)[4]) const {
    for (size_t t = 0; t < 4; ++t) {
      const __m256 scaled = _mm256_mul_ps(table, _mm256_set1_ps(decoding.scale[scales[t / 2]]));
      w[t] = {eight(values + 8 * t, scaled), eight(values + 8 * t + 4, scaled)};
    }
  }
};

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
