#pragma once

#include "kernels/cpu/decode.hpp"

namespace deepinfer::kernels::cpu {

/// An E4M3 magnitude as bf16 (exact, subnormals and NaN included), its two bytes in two tables, and
/// the order of codes in which interleaving the bytes leaves columns 0..15 in the low halves of the
/// first register, 16..31 in its high halves, and 32..63 likewise in the second.
struct e4m3_byte_tables {
  alignas(64) uint8_t low[128];
  alignas(64) uint8_t high[128];
  alignas(64) uint8_t order[64];
};
constexpr e4m3_byte_tables make_e4m3_byte_tables() {
  e4m3_byte_tables t{};
  for (uint32_t code = 0; code < 128; ++code) {
    const uint32_t bits = bits_as<uint32_t>(e4m3_value(static_cast<uint8_t>(code))) >> 16;
    t.low[code] = static_cast<uint8_t>(bits);
    t.high[code] = static_cast<uint8_t>(bits >> 8);
  }
  for (uint32_t lane = 0; lane < 16; ++lane) {
    const uint32_t place = lane / 4 * 16 + lane % 4 * 2;
    t.order[place] = static_cast<uint8_t>(lane);
    t.order[place + 1] = static_cast<uint8_t>(16 + lane);
    t.order[place + 8] = static_cast<uint8_t>(32 + lane);
    t.order[place + 9] = static_cast<uint8_t>(48 + lane);
  }
  return t;
}
inline constexpr e4m3_byte_tables e4m3_bytes = make_e4m3_byte_tables();

}  // namespace deepinfer::kernels::cpu

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

/// 64 codes as fp32.
struct e4m3_lookup {
  __m512i order, low_a, low_b, high_a, high_b, sign, upper;

  // Spelt out: a constructor that the compiler writes is not compiled for the instruction set.
  DEEPINFER_INLINE e4m3_lookup()
      : order(_mm512_load_si512(e4m3_bytes.order)),
        low_a(_mm512_load_si512(e4m3_bytes.low)),
        low_b(_mm512_load_si512(e4m3_bytes.low + 64)),
        high_a(_mm512_load_si512(e4m3_bytes.high)),
        high_b(_mm512_load_si512(e4m3_bytes.high + 64)),
        sign(_mm512_set1_epi8(static_cast<char>(0x80))),
        upper(_mm512_set1_epi32(static_cast<int>(0xFFFF0000u))) {}

  DEEPINFER_INLINE void block(const uint8_t* values, vec16 (&w)[4]) const {
    const __m512i codes = _mm512_permutexvar_epi8(order, _mm512_loadu_si512(values));
    // The lookup ignores the top bit of its index, which is the sign.
    const __m512i low = _mm512_permutex2var_epi8(low_a, codes, low_b);
    const __m512i magnitude = _mm512_permutex2var_epi8(high_a, codes, high_b);
    const __m512i high = _mm512_ternarylogic_epi32(magnitude, codes, sign, 0xF8);  // a | (b & c)
    const __m512i first = _mm512_unpacklo_epi8(low, high), second = _mm512_unpackhi_epi8(low, high);
    w[0] = {_mm512_castsi512_ps(_mm512_slli_epi32(first, 16))};
    w[1] = {_mm512_castsi512_ps(_mm512_and_si512(first, upper))};
    w[2] = {_mm512_castsi512_ps(_mm512_slli_epi32(second, 16))};
    w[3] = {_mm512_castsi512_ps(_mm512_and_si512(second, upper))};
  }
};

template <>
struct decoder<weight_format::fp8> {
  e4m3_lookup lookup;

  DEEPINFER_INLINE decoder() {}
  DEEPINFER_INLINE void block(const uint8_t* values, const uint8_t* scales, vec16 (&w)[4]) const {
    lookup.block(values, w);
    const vec16 scale_a = all(decoding.scale[scales[0]]), scale_b = all(decoding.scale[scales[1]]);
    w[0] = w[0] * scale_a;
    w[1] = w[1] * scale_a;
    w[2] = w[2] * scale_b;
    w[3] = w[3] * scale_b;
  }
};

template <>
struct decoder<weight_format::fp4> {
  vec16 table;
  __m512i nibbles;

  // Lane i of a pair of lanes gets nibble i of the eight bytes that all pairs see.
  DEEPINFER_INLINE decoder()
      : table{_mm512_loadu_ps(decoding.e2m1)},
        nibbles(_mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60)) {}

  DEEPINFER_INLINE void block(const uint8_t* values, const uint8_t* scales, vec16 (&w)[4]) const {
    for (size_t t = 0; t < 4; ++t) {
      const vec16 scaled = table * all(decoding.scale[scales[t / 2]]);
      long long eight;
      std::memcpy(&eight, values + 8 * t, sizeof eight);
      // The lookup uses four bits of its index: what stands above the nibble does no harm.
      const __m512i index = _mm512_multishift_epi64_epi8(nibbles, _mm512_set1_epi64(eight));
      w[t] = {_mm512_permutexvar_ps(index, scaled.v)};
    }
  }
};

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
