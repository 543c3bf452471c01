#pragma once

#include <cstdint>

/// The small number formats of the model, as bits.
///   E4M3  sign, 4 exponent bits (bias 7), 3 mantissa bits; 0x7F and 0xFF are NaN; largest 448
///   UE8M0 byte b stands for 2^(b - 127); 255 is NaN
///   E2M1  sign in bit 3; magnitudes 0 .5 1 1.5 2 3 4 6; two per byte, even index low
namespace deepinfer::kernels {

/// `std::bit_cast`, which C++17 does not have; gcc, clang and nvcc all know the builtin.
template <class To, class From>
[[nodiscard]] constexpr To bits_as(From from) {
  return __builtin_bit_cast(To, from);
}

[[nodiscard]] constexpr float bf16_value(uint16_t bits) {
  return bits_as<float>(uint32_t{bits} << 16);
}

/// Nearest bf16, ties to even; NaN stays NaN.
[[nodiscard]] constexpr uint16_t bf16_bits(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

[[nodiscard]] constexpr float ue8m0_value(uint8_t byte) {
  if (byte == 255) return bits_as<float>(0x7FC00000u);
  return bits_as<float>(byte == 0 ? 0x00400000u : uint32_t{byte} << 23);  // 2^-127 is subnormal
}

[[nodiscard]] constexpr float e4m3_value(uint8_t code) {
  const uint32_t exponent = (code >> 3) & 15, mantissa = code & 7;
  const uint32_t sign = uint32_t{code & 0x80u} << 24;
  if (exponent == 15 && mantissa == 7) return bits_as<float>(0x7FC00000u | sign);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return bits_as<float>(sign | ((exponent + 120) << 23) | (mantissa << 20));
}

[[nodiscard]] constexpr float e2m1_value(uint8_t code) {
  constexpr float magnitude[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  return (code & 8) != 0 ? -magnitude[code & 7] : magnitude[code & 7];
}

}  // namespace deepinfer::kernels
