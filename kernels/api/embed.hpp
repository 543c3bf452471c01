#pragma once

#include <cstdint>

namespace deepinfer::kernels {

/// x[r][k] = bf16 row id[r] of the table, or `instead[r]` where that is not null; the same for
/// every stream k.
struct embed_args {
  float* x;                     // [rows][streams][width]
  const uint16_t* table;        // [vocabulary][width], bf16
  const int32_t* id;            // [rows], inside the vocabulary
  const float* const* instead;  // [rows] of rows of `width`; null: nowhere
  uint32_t rows;
  uint32_t streams;
  uint32_t width;
};

}  // namespace deepinfer::kernels
