#pragma once

#include "kernels/api/number_formats.hpp"

#include <cstdint>

namespace deepinfer::kernels {

/// out[i] = dequantised row id[i] of an E4M3 table with one UE8M0 scale per 32 channels.
struct engram_rows_args {
  float* out;             // [count][width]
  const uint8_t* table;   // [table rows][width]
  const uint8_t* scales;  // [table rows][width / 32]
  const int64_t* id;      // [count], inside the table
  uint32_t count;
  uint32_t width;  // multiple of 32
};

/// In place, for every stream k of a row (streams of width d):
///   dot  = sum_c x[k] qk_weight[k] key[k] / (rms(x[k]) rms(key[k]) sqrt(d))
///   x[k] += sigmoid(sign(dot) sqrt(max(|dot|, 1e-6))) * value
/// `kv` holds the S keys and then the value: [rows][(S + 1) * d].
struct engram_gate_args {
  float* x;
  const float* kv;
  const float* qk_weight;   // [S][d], product of the two gains
  const uint8_t* is_image;  // [rows]: these keep their x; null: none
  uint32_t rows;
  uint32_t streams;
  uint32_t width;
  float epsilon;
  rounding round;  ///< of the new x
};

}  // namespace deepinfer::kernels
