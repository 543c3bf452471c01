#include "kernels/api/number_formats.hpp"
#include "kernels/ref/ref.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

namespace deepinfer::kernels::ref {
namespace {

// Tries every code and keeps the nearest; between two equally near the even one. Saturates.
uint8_t nearest(float value, float (*decode)(uint8_t), uint8_t largest, uint8_t sign_bit) {
  const double magnitude = std::fabs(double{value});
  uint8_t best = 0;
  for (uint8_t code = 1; code <= largest; ++code) {
    const double was = std::fabs(magnitude - decode(best));
    const double is = std::fabs(magnitude - decode(code));
    if (is < was || (is == was && code % 2 == 0)) best = code;
  }
  return std::signbit(value) ? best | sign_bit : best;
}

uint8_t nearest_e4m3(float v) {
  return nearest(
      v, [](uint8_t c) { return e4m3_value(c); }, 126, 0x80);
}
uint8_t nearest_e2m1(float v) {
  return nearest(
      v, [](uint8_t c) { return e2m1_value(c); }, 7, 8);
}

// Smallest power of two >= t, as a UE8M0 byte.
uint8_t power_above(float t) {
  uint8_t byte = 0;
  while (byte < 254 && ue8m0_value(byte) < t) ++byte;
  return byte;
}

uint8_t scale_byte(float amax, row_format format) {
  if (format == row_format::fp8_32) return power_above(std::fmax(amax, 1e-4f) * (1 / 448.0f));
  if (format == row_format::fp4_32) return power_above(std::fmax(amax, 6 * 0x1p-126f) * (1 / 6.0f));
  return nearest_e4m3(std::fmax(amax, 6 * 0x1p-9f) / 6.0f);
}

float scale_value(uint8_t byte, row_format format) {
  return format == row_format::fp4_16 ? e4m3_value(byte) : ue8m0_value(byte);
}

}  // namespace

void pack_rows(stream&, const pack_rows_args& a) {
  if (a.format == row_format::f32) {
    std::memcpy(a.out, a.in, size_t{a.rows} * a.width * sizeof *a.in);
    return;
  }
  const size_t group = group_width(a.format), row_bytes = packed_row_bytes(a.format, a.width);
  const bool byte_each = a.format == row_format::fp8_32;
  for (size_t r = 0; r < a.rows; ++r) {
    uint8_t* out = a.out + r * row_bytes;
    uint8_t* scales = out + (byte_each ? a.width : a.width / 2);
    for (size_t c = 0; c < a.width; ++c) {
      const float* in = a.in + r * a.width;
      const float* first = in + c / group * group;
      float amax = 0;
      bool finite = true;
      for (size_t i = 0; i < group; ++i) {
        amax = std::fmax(amax, std::fabs(first[i]));
        finite = finite && std::isfinite(first[i]);
      }
      const uint8_t scale = scale_byte(std::fmin(amax, 0x1p120f), a.format);
      scales[c / group] = finite ? scale : nan_scale(a.format);
      const float v = in[c] / scale_value(scale, a.format);
      if (byte_each) {
        out[c] = nearest_e4m3(v);
      } else {
        const uint8_t code = nearest_e2m1(v);
        out[c / 2] = c % 2 == 0 ? code : static_cast<uint8_t>(out[c / 2] | (code << 4));
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
  for (size_t r = 0; r < a.rows; ++r)
    for (size_t c = 0; c < a.width; ++c) {
      const uint8_t* in = a.in + r * row_bytes;
      const uint8_t scale = in[(byte_each ? a.width : a.width / 2) + c / group];
      const float v = byte_each ? e4m3_value(in[c]) : e2m1_value((in[c / 2] >> (c % 2 * 4)) & 15);
      a.out[r * a.width + c] = v * scale_value(scale, a.format);
    }
}

void fake_quant(stream& s, const fake_quant_args& a) {
  std::vector<uint8_t> packed(a.rows * packed_row_bytes(a.format, a.width));
  pack_rows(s, {packed.data(), a.in, a.rows, a.width, a.format});
  unpack_rows(s, {a.out, packed.data(), a.rows, a.width, a.format});
}

void dequant(stream&, const dequant_args& a) {
  const weight_matrix& w = a.weight;
  for (size_t r = 0; r < w.rows; ++r)
    for (size_t c = 0; c < w.width; ++c) {
      const uint8_t* row = w.values + r * row_bytes(w);
      const uint8_t* scales = w.scales + scale_offset(w, r);
      float v = 0;
      uint16_t half = 0;
      switch (w.format) {
        case weight_format::f32:
          std::memcpy(&v, row + 4 * c, sizeof v);
          break;
        case weight_format::bf16:
          std::memcpy(&half, row + 2 * c, sizeof half);
          v = bf16_value(half);
          break;
        case weight_format::fp8:
          v = e4m3_value(row[c]) * ue8m0_value(scales[c / 32]);
          break;
        case weight_format::fp4:
          v = e2m1_value((row[c / 2] >> (c % 2 * 4)) & 15) * ue8m0_value(scales[c / 32]);
          break;
      }
      a.out[r * w.width + c] = v;
    }
}

}  // namespace deepinfer::kernels::ref
