#pragma once

#include <bit>
#include <cstdint>

/// The small number formats of the model, as bits.
///   E4M3  sign, 4 exponent bits (bias 7), 3 mantissa bits; 0x7F and 0xFF are NaN; largest 448
///   UE8M0 byte b stands for 2^(b - 127); 255 is NaN
///   E2M1  sign in bit 3; magnitudes 0 .5 1 1.5 2 3 4 6; two per byte, even index low
namespace deepinfer::kernels {

[[nodiscard]] constexpr float bf16_value(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

/// Nearest bf16, ties to even; NaN stays NaN.
[[nodiscard]] constexpr uint16_t bf16_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

[[nodiscard]] constexpr float ue8m0_value(uint8_t byte) {
  if (byte == 255) return std::bit_cast<float>(0x7FC00000u);
  return std::bit_cast<float>(byte == 0 ? 0x00400000u
                                        : uint32_t{byte} << 23);  // 2^-127 is subnormal
}

[[nodiscard]] constexpr float e4m3_value(uint8_t code) {
  const uint32_t exponent = (code >> 3) & 15, mantissa = code & 7;
  const uint32_t sign = uint32_t{code & 0x80u} << 24;
  if (exponent == 15 && mantissa == 7) return std::bit_cast<float>(0x7FC00000u | sign);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 120) << 23) | (mantissa << 20));
}

[[nodiscard]] constexpr float e2m1_value(uint8_t code) {
  constexpr float magnitude[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  return (code & 8) != 0 ? -magnitude[code & 7] : magnitude[code & 7];
}

}  // namespace deepinfer::kernels
