#pragma once

#include <cstdint>

/// Stored weights to fp32; exact. Codes that mean NaN become NaN: the caller looks for them.
namespace deepinfer::kernels {

struct dequant_bf16_args {
  float* out;
  const uint16_t* in;
  uint64_t count;
};

/// E4M3 [rows][width] with one UE8M0 scale per tile of 32 x 32: [ceil(rows/32)][ceil(width/32)].
struct dequant_fp8_args {
  float* out;
  const uint8_t* codes;
  const uint8_t* scales;
  uint32_t rows;
  uint32_t width;
};

/// Two E2M1 per byte, [rows][width / 2], one UE8M0 scale per row and 32 columns.
struct dequant_fp4_args {
  float* out;
  const uint8_t* codes;
  const uint8_t* scales;
  uint32_t rows;
  uint32_t width;  // multiple of 32
};

}  // namespace deepinfer::kernels
