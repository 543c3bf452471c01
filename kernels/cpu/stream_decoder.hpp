#pragma once

#include "kernels/cpu/decode.hpp"

#include <cstddef>

/// What bounds products of few rows is the decoding, so a format may have a decoder of its own
/// here. Its lanes may lie in another order: the input is arranged alike, and the sums are put back
/// in order before their tree. It may leave the scale to the input, where both products are exact.
/// No bit changes.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

template <weight_format Format>
struct stream_decoder : decoder<Format> {
  static constexpr bool scales_inputs = false;
  static constexpr float input_factor = 1;
  DEEPINFER_INLINE stream_decoder() {}
  /// Whether `block` may be used for a row with these scales.
  DEEPINFER_INLINE static bool takes(const uint8_t*, size_t) { return true; }
  DEEPINFER_INLINE static vec16 arrange(vec16 x) { return x; }
  DEEPINFER_INLINE static vec16 restore(vec16 sum) { return sum; }
};

/// Scales whose products with E4M3 values are normal numbers, and which leave inputs normal that
/// are not `unusual`: then round(w * s) * x and w * (x * s) are one real number.
DEEPINFER_INLINE bool are_ordinary(const uint8_t* scales, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (scales[i] < 127 - 24 || scales[i] > 127 + 24) return false;
  return true;
}
/// Lanes of what is not: the bits of sizes in 2^-90 .. 2^90 lie side by side.
DEEPINFER_INLINE uint32_t unusual(vec16 x) {
  const ivec16 size = bits_of(abs(x));
  const ivec16 least = all_i((127 - 90) << 23), most = all_i((127 + 90) << 23);
  return (bits_of(least > size) | bits_of(size > most)) & bits_of(size > all_i(0));
}

#if defined(DEEPINFER_FOR_AVX512)

/// The scales of 32 x 32 tiles go into the inputs, once for 32 weight rows.
template <>
struct stream_decoder<weight_format::fp8> {
  static constexpr bool scales_inputs = true;
  static constexpr float input_factor = 1;
  e4m3_lookup lookup;

  DEEPINFER_INLINE stream_decoder() {}
  DEEPINFER_INLINE static bool takes(const uint8_t*, size_t) { return true; }
  DEEPINFER_INLINE static vec16 arrange(vec16 x) { return x; }
  DEEPINFER_INLINE static vec16 restore(vec16 sum) { return sum; }
  DEEPINFER_INLINE void block(const uint8_t* values, const uint8_t*, vec16 (&w)[4]) const {
    lookup.block(values, w);
  }
};

/// Shifts and integer additions run beside the multiply-adds, lookups and multiplications partly
/// in their place (Zen 4): so nibbles are brought down by a shift, and the scale goes into the
/// table's exponents.
template <>
struct stream_decoder<weight_format::fp4> {
  static constexpr bool scales_inputs = false;
  static constexpr float input_factor = 1;
  vec16 table;
  __m512i shifts;

  DEEPINFER_INLINE stream_decoder()
      : table{_mm512_loadu_ps(decoding.e2m1)},
        shifts(_mm512_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28)) {}

  /// The exponents of 0.5 and 6 must stay those of normal numbers: scales 4 to 250.
  DEEPINFER_INLINE static bool takes(const uint8_t* scales, size_t groups) {
    const __m512i least = _mm512_set1_epi8(4), span = _mm512_set1_epi8(static_cast<char>(246));
    __mmask64 outside = 0;
    for (size_t g = 0; g < groups; g += 64) {
      const __mmask64 here = groups - g >= 64 ? ~__mmask64{0} : (__mmask64{1} << (groups - g)) - 1;
      const __m512i some = _mm512_maskz_loadu_epi8(here, scales + g);
      outside |= _mm512_mask_cmpgt_epu8_mask(here, _mm512_sub_epi8(some, least), span);
    }
    return outside == 0;
  }

  /// Lane 2 i holds column i, lane 2 i + 1 column 8 + i.
  DEEPINFER_INLINE static vec16 arrange(vec16 x) {
    const __m512i from = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    return {_mm512_permutexvar_ps(from, x.v)};
  }
  DEEPINFER_INLINE static vec16 restore(vec16 sum) {
    const __m512i from = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    return {_mm512_permutexvar_ps(from, sum.v)};
  }

  DEEPINFER_INLINE void block(const uint8_t* values, const uint8_t* scales, vec16 (&w)[4]) const {
    constexpr __mmask16 has_value = 0xFEFE;  // not the two zeros
    for (size_t g = 0; g < 2; ++g) {
      const __m512i exponent = _mm512_set1_epi32(decoding.exponent[scales[g]]);
      const __m512i base = _mm512_castps_si512(table.v);
      const __m512 scaled =
          _mm512_castsi512_ps(_mm512_mask_add_epi32(base, has_value, base, exponent));
      for (size_t t = 2 * g; t < 2 * g + 2; ++t) {
        long long eight;
        std::memcpy(&eight, values + 8 * t, sizeof eight);
        const __m512i index = _mm512_srlv_epi32(_mm512_set1_epi64(eight), shifts);
        w[t] = {_mm512_permutexvar_ps(index, scaled)};
      }
    }
  }
};

inline constexpr size_t stream_rows = 8;
#else
#if defined(DEEPINFER_FOR_AVX2)
template <>
struct stream_decoder<weight_format::fp8> {
  static constexpr bool scales_inputs = true;
  static constexpr float input_factor = 256;  // what the halves of `decoder` lack

  DEEPINFER_INLINE stream_decoder() {}
  DEEPINFER_INLINE static bool takes(const uint8_t*, size_t) { return true; }
  DEEPINFER_INLINE static vec16 arrange(vec16 x) { return x; }
  DEEPINFER_INLINE static vec16 restore(vec16 sum) { return sum; }
  DEEPINFER_INLINE void block(const uint8_t* values, const uint8_t*, vec16 (&w)[4]) const {
    for (size_t t = 0; t < 4; ++t) w[t] = decoder<weight_format::fp8>::halves(values + 16 * t);
  }
};
#endif
inline constexpr size_t stream_rows = 2;
#endif

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
