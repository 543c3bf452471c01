#pragma once

#include <cstddef>
#include <cstdint>

/// The block quantisers of caches and activations, and the storage form of a cache row.
/// Nearest value, ties to even. The quantisers are idempotent, so storing is lossless; the one
/// exception is fp4_16 with amax < 6 * 2^-6 (its scale is then a subnormal E4M3 and coarse): rows
/// like that must be packed from the raw values.
namespace deepinfer::kernels {

enum class row_format : uint8_t {
  fp8_32 = 0,  ///< E4M3 by 32, UE8M0 scale = 2^ceil(log2(max(amax, 1e-4) / 448)): window KV
  fp4_32 = 1,  ///< E2M1 by 32, UE8M0 scale = 2^ceil(log2(max(amax, 6 * 2^-126) / 6)): index rows
  fp4_16 = 2,  ///< E2M1 by 16, E4M3 scale = max(amax, 6 * 2^-9) / 6 rounded: compressed KV
  f32 = 3,     ///< as computed: numeric level L0 has no cache quantisers
};

[[nodiscard]] constexpr uint32_t group_width(row_format format) {
  return format == row_format::fp4_16 ? 16 : 32;
}

/// Bytes of a packed row: the values, then one scale byte per group.
[[nodiscard]] constexpr size_t packed_row_bytes(row_format format, uint32_t width) {
  if (format == row_format::f32) return size_t{width} * 4;
  return (format == row_format::fp8_32 ? width : width / 2) + width / group_width(format);
}

/// Scale byte of a group that holds a number that is none: unpacking it gives NaN.
[[nodiscard]] constexpr uint8_t nan_scale(row_format format) {
  return format == row_format::fp4_16 ? 0x7F : 0xFF;
}

/// Every value becomes the one its packed form would give back.
struct fake_quant_args {
  float* out;       // [rows][width]; may be `in`
  const float* in;  // [rows][width]
  uint32_t rows;
  uint32_t width;     // multiple of the group width
  row_format format;  // not f32
};

/// Rows of any storage format.
struct pack_rows_args {
  uint8_t* out;  // [rows][packed_row_bytes]
  const float* in;
  uint32_t rows;
  uint32_t width;
  row_format format;
};

struct unpack_rows_args {
  float* out;
  const uint8_t* in;
  uint32_t rows;
  uint32_t width;
  row_format format;
};

}  // namespace deepinfer::kernels
