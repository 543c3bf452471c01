#pragma once

#include "kernels/api/weight.hpp"
#include "kernels/cpu/vec16.hpp"

/// Weights become fp32 in registers, 64 columns at a time. Every instruction set gives
/// round(code * scale), one product rounded once, so what is decoded has one set of bits.
///   decoder<format>{}.block(values, scales, w): w[t] = columns 16 t .. 16 t + 15 of the 64 whose
///   codes begin at `values`; `scales` are the two of these columns (one per 32).

namespace deepinfer::kernels::cpu {

/// ue8m0_value of every byte, and e4m3_value and e2m1_value of every code.
struct decode_tables {
  float scale[256];
  float e4m3[256];
  float e2m1[16];
  int32_t exponent[256];  // what a scale adds to the exponent field of a float
};
constexpr decode_tables make_decode_tables() {
  decode_tables t{};
  for (uint32_t i = 0; i < 256; ++i) {
    t.scale[i] = ue8m0_value(static_cast<uint8_t>(i));
    t.e4m3[i] = e4m3_value(static_cast<uint8_t>(i));
    t.exponent[i] = (static_cast<int32_t>(i) - 127) * (1 << 23);
  }
  for (uint32_t i = 0; i < 16; ++i) t.e2m1[i] = e2m1_value(static_cast<uint8_t>(i));
  return t;
}
inline constexpr decode_tables decoding = make_decode_tables();

inline constexpr size_t block_columns = 64;

/// Bytes of `columns` codes.
constexpr size_t code_bytes(weight_format format, size_t columns) {
  return format == weight_format::f32    ? columns * 4
         : format == weight_format::bf16 ? columns * 2
         : format == weight_format::fp8  ? columns
                                         : columns / 2;
}
constexpr bool has_scales(weight_format format) {
  return format == weight_format::fp8 || format == weight_format::fp4;
}

}  // namespace deepinfer::kernels::cpu

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

template <weight_format Format>
struct decoder;

template <>
struct decoder<weight_format::f32> {
  DEEPINFER_INLINE void block(const uint8_t* values, const uint8_t*, vec16 (&w)[4]) const {
    for (size_t t = 0; t < 4; ++t) w[t] = load(reinterpret_cast<const float*>(values + 64 * t));
  }
};

template <>
struct decoder<weight_format::bf16> {
  DEEPINFER_INLINE void block(const uint8_t* values, const uint8_t*, vec16 (&w)[4]) const {
    for (size_t t = 0; t < 4; ++t) w[t] = floats_of(shift_left<16>(load_halves(values + 32 * t)));
  }
};

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END

#if defined(DEEPINFER_FOR_AVX512)
#include "kernels/cpu/decode_avx512.hpp"
#elif defined(DEEPINFER_FOR_AVX2)
#include "kernels/cpu/decode_avx2.hpp"
#else
#include "kernels/cpu/decode_portable.hpp"
#endif

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

/// The first `columns` < 64 of a block; nothing behind them is read, the others become zero.
template <weight_format Format, class Decoder>
DEEPINFER_INLINE void decode_tail(const Decoder& decode,
                                  const uint8_t* values,
                                  const uint8_t* scales,
                                  size_t columns,
                                  vec16 (&w)[4]) {
  alignas(64) uint8_t codes[code_bytes(Format, block_columns)] = {};
  uint8_t two_scales[2] = {127, 127};
  std::memcpy(codes, values, code_bytes(Format, columns));
  if (has_scales(Format)) std::memcpy(two_scales, scales, (columns + 31) / 32);
  decode.block(codes, two_scales, w);
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
