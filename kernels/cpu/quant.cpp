#include "kernels/api/number_formats.hpp"
#include "kernels/cpu/cpu.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace deepinfer::kernels::cpu {
namespace {

// Adding and taking away 1.5 * 2^23 rounds to an integer, ties to even, for |v| < 2^22.
float round_even(float v) {
  return (v + 12582912.0f) - 12582912.0f;
}

uint8_t encode_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80);
  const float magnitude = std::fmin(std::fabs(value), 448.0f);
  if (magnitude < 0x1p-6f)  // subnormal grid; 8 steps reach the first normal code by themselves
    return sign | static_cast<uint8_t>(round_even(magnitude * 512.0f));
  // Round the mantissa to 3 bits on the bit pattern; a carry moves the exponent as it should.
  const uint32_t m = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounded = (m + 0x7FFFF + ((m >> 20) & 1)) >> 20;
  return sign | static_cast<uint8_t>(std::min(rounded - (120u << 3), 126u));
}

uint8_t encode_e2m1(float value) {
  const float magnitude = std::fabs(value);
  // Midpoints go to the even code: up at 0.75, 1.75, 3.5; down at 0.25, 1.25, 2.5, 5.
  const uint8_t code = (magnitude > 0.25f) + (magnitude >= 0.75f) + (magnitude > 1.25f) +
                       (magnitude >= 1.75f) + (magnitude > 2.5f) + (magnitude >= 3.5f) +
                       (magnitude > 5.0f);
  return std::signbit(value) ? code | 8 : code;
}

// Smallest power of two >= t, for normal t > 0: on the bits, since a logarithm may miss by one.
uint8_t power_above(float t) {
  const uint32_t bits = std::bit_cast<uint32_t>(t);
  return static_cast<uint8_t>(((bits >> 23) & 255) + ((bits & 0x7FFFFF) != 0 ? 1 : 0));
}

struct group_scale {
  uint8_t byte;
  float value;
};

group_scale scale_of(const float* group, row_format format) {
  float amax = 0;
  for (uint32_t i = 0; i < group_width(format); ++i) {
    const float v = std::fabs(group[i]);
    amax = v > amax ? v : amax;
  }
  amax = std::fmin(amax, 0x1p120f);  // keeps the byte of an infinite value below NaN's
  switch (format) {
    case row_format::fp8_32: {
      const uint8_t byte = power_above(std::fmax(amax, 1e-4f) * (1 / 448.0f));
      return {byte, ue8m0_value(byte)};
    }
    case row_format::fp4_32: {
      const uint8_t byte = power_above(std::fmax(amax, 6 * 0x1p-126f) * (1 / 6.0f));
      return {byte, ue8m0_value(byte)};
    }
    case row_format::fp4_16:
      break;
  }
  const uint8_t byte = encode_e4m3(std::fmax(amax, 6 * 0x1p-9f) / 6.0f);
  return {byte, e4m3_value(byte)};
}

}  // namespace

// Division, not a product with the inverse: E4M3 scales are no powers of two.
void fake_quant(stream&, const fake_quant_args& a) {
  const size_t group = group_width(a.format), groups = size_t{a.rows} * a.width / group;
  for (size_t g = 0; g < groups; ++g) {
    float* data = a.data + g * group;
    const float scale = scale_of(data, a.format).value;
    for (size_t i = 0; i < group; ++i) {
      const float v = data[i] / scale;
      const float rounded =
          a.format == row_format::fp8_32 ? e4m3_value(encode_e4m3(v)) : e2m1_value(encode_e2m1(v));
      // A number that is none must not be laundered into one.
      data[i] = std::isfinite(data[i]) ? rounded * scale : data[i];
    }
  }
}

void pack_rows(stream&, const pack_rows_args& a) {
  const size_t group = group_width(a.format), row_bytes = packed_row_bytes(a.format, a.width);
  const bool byte_each = a.format == row_format::fp8_32;
  for (size_t r = 0; r < a.rows; ++r) {
    const float* in = a.in + r * a.width;
    uint8_t* out = a.out + r * row_bytes;
    uint8_t* scales = out + (byte_each ? a.width : a.width / 2);
    for (size_t g = 0; g < a.width / group; ++g) {
      const group_scale scale = scale_of(in + g * group, a.format);
      scales[g] = scale.byte;
      for (size_t c = g * group; c < (g + 1) * group; c += 2) {
        const float first = in[c] / scale.value, second = in[c + 1] / scale.value;
        if (byte_each) {
          out[c] = encode_e4m3(first);
          out[c + 1] = encode_e4m3(second);
        } else {
          out[c / 2] = static_cast<uint8_t>(encode_e2m1(first) | (encode_e2m1(second) << 4));
        }
      }
    }
  }
}

void unpack_rows(stream&, const unpack_rows_args& a) {
  const size_t group = group_width(a.format), row_bytes = packed_row_bytes(a.format, a.width);
  const bool byte_each = a.format == row_format::fp8_32;
  for (size_t r = 0; r < a.rows; ++r) {
    const uint8_t* in = a.in + r * row_bytes;
    const uint8_t* scales = in + (byte_each ? a.width : a.width / 2);
    for (size_t c = 0; c < a.width; ++c) {
      const uint8_t byte = scales[c / group];
      const float scale = a.format == row_format::fp4_16 ? e4m3_value(byte) : ue8m0_value(byte);
      const float v = byte_each ? e4m3_value(in[c]) : e2m1_value((in[c / 2] >> (c % 2 * 4)) & 15);
      a.out[r * a.width + c] = v * scale;
    }
  }
}

void dequant_bf16(stream&, const dequant_bf16_args& a) {
  for (uint64_t i = 0; i < a.count; ++i) a.out[i] = bf16_value(a.in[i]);
}

void dequant_fp8(stream&, const dequant_fp8_args& a) {
  const size_t tiles = (size_t{a.width} + 31) / 32;
  for (size_t r = 0; r < a.rows; ++r) {
    const uint8_t* codes = a.codes + r * a.width;
    const uint8_t* scales = a.scales + r / 32 * tiles;
    float* out = a.out + r * a.width;
    for (size_t c = 0; c < a.width; ++c)
      out[c] = e4m3_value(codes[c]) * ue8m0_value(scales[c / 32]);
  }
}

void dequant_fp4(stream&, const dequant_fp4_args& a) {
  for (size_t r = 0; r < a.rows; ++r) {
    const uint8_t* codes = a.codes + r * (a.width / 2);
    const uint8_t* scales = a.scales + r * (a.width / 32);
    float* out = a.out + r * a.width;
    for (size_t c = 0; c < a.width; c += 2) {
      const float scale = ue8m0_value(scales[c / 32]);
      out[c] = e2m1_value(codes[c / 2] & 15) * scale;
      out[c + 1] = e2m1_value(codes[c / 2] >> 4) * scale;
    }
  }
}

}  // namespace deepinfer::kernels::cpu
