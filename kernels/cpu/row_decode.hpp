#pragma once

#include "kernels/api/paged.hpp"
#include "kernels/cpu/vec16_math.hpp"

#include <array>

/// Stored rows as fp32, exactly.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

/// Where row i of a store begins.
inline const uint8_t* row_of(const paged_rows& store, size_t i, size_t row_bytes) {
  return store.pages[i / store.page_rows] + (i % store.page_rows) * row_bytes;
}

/// Value of every E4M3 code, for scales.
inline constexpr std::array<float, 256> e4m3_values = [] {
  std::array<float, 256> values{};
  for (size_t c = 0; c < 256; ++c) values[c] = e4m3_value(static_cast<uint8_t>(c));
  return values;
}();

DEEPINFER_INLINE vec16 e2m1_magnitudes() {
  constexpr float magnitude[16] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  return load(magnitude);
}

/// The values of sixteen E2M1 codes; bits above the fourth are ignored.
DEEPINFER_INLINE vec16 e2m1_values_of(ivec16 code, vec16 magnitudes) {
  const ivec16 sign = shift_left<28>(code) & all_i(0x80000000u);
  return floats_of(bits_of(pick8(magnitudes, code)) | sign);
}

/// The values of sixteen E4M3 codes (bits 8.. zero).
DEEPINFER_INLINE vec16 e4m3_values_of(ivec16 code) {
  const ivec16 magnitude = code & all_i(0x7F);
  const ivec16 sign = shift_left<24>(code & all_i(0x80));
  const vec16 normal = floats_of(shift_left<20>(magnitude) + all_i(120u << 23));
  const vec16 small = to_float(magnitude) * all(0x1p-9f);
  const vec16 finite = select(all_i(8) > magnitude, small, normal);
  const vec16 value = select(magnitude == all_i(127), floats_of(all_i(0x7FC00000u)), finite);
  return floats_of(bits_of(value) | sign);
}

namespace stored {

// 32 values from 16 bytes: even indices low.
DEEPINFER_INLINE void thirty_two(const uint8_t* codes, vec16 magnitudes, vec16& low, vec16& high) {
  const ivec16 byte = load_bytes(codes);
  interleave(e2m1_values_of(byte, magnitudes), e2m1_values_of(shift_right<4>(byte), magnitudes),
             low, high);
}

inline void fp4_16_row(const uint8_t* row, size_t width, float* out) {
  const vec16 magnitudes = e2m1_magnitudes();
  const uint8_t* scale = row + width / 2;
  size_t c = 0;
  for (; c + 32 <= width; c += 32, scale += 2) {
    vec16 low, high;
    thirty_two(row + c / 2, magnitudes, low, high);
    store(out + c, low * all(e4m3_values[scale[0]]));
    store(out + c + 16, high * all(e4m3_values[scale[1]]));
  }
  if (c == width) return;
  uint8_t codes[16] = {};
  std::memcpy(codes, row + c / 2, 8);
  vec16 low, high;
  thirty_two(codes, magnitudes, low, high);
  store(out + c, low * all(e4m3_values[scale[0]]));
}

inline void fp4_32_row(const uint8_t* row, size_t width, float* out) {
  const vec16 magnitudes = e2m1_magnitudes();
  const uint8_t* scales = row + width / 2;
  for (size_t c = 0; c < width; c += 32) {
    const vec16 scale = all(ue8m0_value(scales[c / 32]));
    vec16 low, high;
    thirty_two(row + c / 2, magnitudes, low, high);
    store(out + c, low * scale);
    store(out + c + 16, high * scale);
  }
}

inline void fp8_32_row(const uint8_t* row, size_t width, float* out) {
  for (size_t c = 0; c < width; c += 16)
    store(out + c, e4m3_values_of(load_bytes(row + c)) * all(ue8m0_value(row[width + c / 32])));
}

}  // namespace stored

/// The `width` values of one row; `out` takes nothing more.
inline void decode_row(row_format format, const uint8_t* row, size_t width, float* out) {
  switch (format) {
    case row_format::fp8_32:
      return stored::fp8_32_row(row, width, out);
    case row_format::fp4_32:
      return stored::fp4_32_row(row, width, out);
    case row_format::fp4_16:
      return stored::fp4_16_row(row, width, out);
    case row_format::f32:
      break;
  }
  std::memcpy(out, row, width * sizeof *out);
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
