#include "kernels/api/number_formats.hpp"
#include "kernels/cpu/cpu.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

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
      const uint8_t byte = ue8m0_above(std::fmax(amax, 1e-4f) * (1 / 448.0f));
      return {byte, ue8m0_value(byte)};
    }
    case row_format::fp4_32: {
      const uint8_t byte = ue8m0_above(std::fmax(amax, 6 * 0x1p-126f) * (1 / 6.0f));
      return {byte, ue8m0_value(byte)};
    }
    case row_format::fp4_16:
    case row_format::f32:
      break;
  }
  const uint8_t byte = e4m3_code(std::fmax(amax, 6 * 0x1p-9f) / 6.0f);
  return {byte, e4m3_value(byte)};
}

}  // namespace

// Division, not a product with the inverse: E4M3 scales are no powers of two.
void fake_quant(stream&, const fake_quant_args& a) {
  const size_t group = group_width(a.format), groups = size_t{a.rows} * a.width / group;
  for (size_t g = 0; g < groups; ++g) {
    const float* data = a.in + g * group;
    float* out = a.out + g * group;
    const float scale = scale_of(data, a.format).value;
    for (size_t i = 0; i < group; ++i) {
      const float v = data[i] / scale;
      const float rounded =
          a.format == row_format::fp8_32 ? e4m3_value(e4m3_code(v)) : e2m1_value(e2m1_code(v));
      // A number that is none must not be laundered into one.
      out[i] = std::isfinite(data[i]) ? rounded * scale : data[i];
    }
  }
}

void pack_rows(stream&, const pack_rows_args& a) {
  if (a.format == row_format::f32) {
    std::memcpy(a.out, a.in, size_t{a.rows} * a.width * sizeof *a.in);
    return;
  }
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
          out[c] = e4m3_code(first);
          out[c + 1] = e4m3_code(second);
        } else {
          out[c / 2] = static_cast<uint8_t>(e2m1_code(first) | (e2m1_code(second) << 4));
        }
      }
    }
  }
}

void unpack_rows(stream&, const unpack_rows_args& a) {
  if (a.format == row_format::f32) {
    std::memcpy(a.out, a.in, size_t{a.rows} * a.width * sizeof *a.out);
    return;
  }
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

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
