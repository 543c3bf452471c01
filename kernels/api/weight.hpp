#pragma once

#include <cstddef>
#include <cstdint>

namespace deepinfer::kernels {

enum class weight_format : uint8_t {
  f32,   ///< 4 bytes each
  bf16,  ///< 2 bytes each
  fp8,   ///< E4M3 with one UE8M0 scale per tile of 32 x 32: [ceil(rows / 32)][ceil(width / 32)]
  fp4,   ///< two E2M1 per byte, one UE8M0 scale per row and 32 columns; width a multiple of 32
};

/// A matrix as a checkpoint stores it, row-major [rows][width]: read in place, at any address, and
/// decoded by whoever multiplies with it. A view; owns nothing.
struct weight_matrix {
  const uint8_t* values = nullptr;
  const uint8_t* scales = nullptr;  ///< null for f32 and bf16
  uint32_t rows = 0;
  uint32_t width = 0;
  weight_format format = weight_format::f32;
};

/// Bytes of one row of values.
[[nodiscard]] constexpr size_t row_bytes(const weight_matrix& m) {
  switch (m.format) {
    case weight_format::f32:
      return size_t{m.width} * 4;
    case weight_format::bf16:
      return size_t{m.width} * 2;
    case weight_format::fp8:
      return m.width;
    case weight_format::fp4:
      break;
  }
  return size_t{m.width} / 2;
}

/// Scales before those of row `row`; for fp8 a multiple of 32 when a matrix is to begin there.
[[nodiscard]] constexpr size_t scale_offset(const weight_matrix& m, size_t row) {
  if (m.format == weight_format::fp8) return row / 32 * ((size_t{m.width} + 31) / 32);
  return m.format == weight_format::fp4 ? row * (m.width / 32) : 0;
}

/// Rows [first, first + count); `first` is a multiple of 32 for fp8.
[[nodiscard]] constexpr weight_matrix row_slice(weight_matrix m, size_t first, uint32_t count) {
  m.values += first * row_bytes(m);
  if (m.scales != nullptr) m.scales += scale_offset(m, first);
  m.rows = count;
  return m;
}

/// out = the matrix as fp32, [rows][width]; exact. Codes that mean NaN become NaN.
struct dequant_args {
  float* out;
  weight_matrix weight;
};

}  // namespace deepinfer::kernels
