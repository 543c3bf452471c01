#pragma once

#include <cstdint>

/// The small number formats of the model, as bits.
///   E4M3  sign, 4 exponent bits (bias 7), 3 mantissa bits; 0x7F and 0xFF are NaN; largest 448
///   UE8M0 byte b stands for 2^(b - 127); 255 is NaN
///   E2M1  sign in bit 3; magnitudes 0 .5 1 1.5 2 3 4 6; two per byte, even index low
namespace deepinfer::kernels {

/// Where the released model stores a tensor in bf16, numeric level L2 rounds to it.
enum class rounding : uint8_t { none, bf16 };

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

[[nodiscard]] constexpr float rounded(float value, rounding to) {
  return to == rounding::bf16 ? bf16_value(bf16_bits(value)) : value;
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

/// Adding and taking away 1.5 * 2^23 rounds to an integer, ties to even, for |v| < 2^22.
[[nodiscard]] constexpr float round_even(float v) {
  return (v + 12582912.0f) - 12582912.0f;
}

/// Nearest code, ties to even; saturates at 448, NaN included.
[[nodiscard]] constexpr uint8_t e4m3_code(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80;
  const float magnitude = bits_as<float>(bits & 0x7FFFFFFF);
  if (!(magnitude < 448.0f)) return static_cast<uint8_t>(sign | 126);
  // Subnormal grid; 8 steps of it reach the first normal code by themselves.
  if (magnitude < 0x1p-6f)
    return static_cast<uint8_t>(sign | static_cast<uint32_t>(round_even(magnitude * 512.0f)));
  // Round the mantissa to 3 bits on the bit pattern; a carry moves the exponent as it should.
  const uint32_t m = bits_as<uint32_t>(magnitude);
  const uint32_t rounded = (m + 0x7FFFF + ((m >> 20) & 1)) >> 20;
  return static_cast<uint8_t>(sign | (rounded - (120u << 3)));
}

/// Nearest code, ties to even: up at 0.75, 1.75, 3.5; down at 0.25, 1.25, 2.5, 5. Saturates at 6.
[[nodiscard]] constexpr uint8_t e2m1_code(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  const float magnitude = bits_as<float>(bits & 0x7FFFFFFF);
  const int code = (magnitude > 0.25f) + (magnitude >= 0.75f) + (magnitude > 1.25f) +
                   (magnitude >= 1.75f) + (magnitude > 2.5f) + (magnitude >= 3.5f) +
                   (magnitude > 5.0f);
  return static_cast<uint8_t>(code | static_cast<int>((bits >> 28) & 8));
}

/// Smallest power of two >= t as UE8M0, for normal t > 0: on the bits, since a logarithm may miss
/// by one.
[[nodiscard]] constexpr uint8_t ue8m0_above(float t) {
  const uint32_t bits = bits_as<uint32_t>(t);
  return static_cast<uint8_t>(((bits >> 23) & 255) + ((bits & 0x7FFFFF) != 0 ? 1 : 0));
}

}  // namespace deepinfer::kernels
