#pragma once

#include "kernels/api/number_formats.hpp"

#include <cstddef>
#include <cstdint>

/// What the vision tower needs beside the ops of the text model. Patches of an image form a grid
/// and are stored in reading order.
namespace deepinfer::kernels {

/// Rotates, in place, every head of every patch. Channel i pairs with channel i + head_width / 2:
///   (a, b) -> (a cos - b sin, b cos + a sin)
/// The first head_width / 4 pairs turn with the patch's row, the others with its column, both by
/// the same tables (`rope_table_args` of the positions 0, 1, ...).
struct grid_rope_args {
  float* data;       // [grid_rows * grid_columns] rows, `heads * head_width` of `stride` floats
  const float* cos;  // [max(grid_rows, grid_columns)][head_width / 4]
  const float* sin;
  uint32_t grid_rows;
  uint32_t grid_columns;
  uint32_t heads;
  uint32_t head_width;  // a multiple of 4
  uint32_t stride;
  rounding round;  // of the rotated channels
};

inline constexpr uint32_t most_full_attention_rows = 65536;

/// Floats of `full_attention_args::key_columns`.
[[nodiscard]] constexpr size_t key_column_floats(size_t rows, size_t heads, size_t width) {
  return (rows + 15) / 16 * 16 * heads * width;
}

/// Every row attends to every row:
///   out[r][h] = sum_i softmax_i(scale * query[r][h] . key[i][h]) value[i][h]
/// A row's result does not depend on how many others are computed with it.
struct full_attention_args {
  float* out;          // [rows][heads][width]
  const float* query;  // [rows], `heads * width` of `stride` floats
  const float* key;    // likewise
  const float* value;  // likewise
  float* key_columns;  // scratch
  uint32_t rows;       // 1 .. most_full_attention_rows
  uint32_t heads;
  uint32_t width;  // 1 .. 1024
  uint32_t stride;
  float scale;
  rounding round;  // of the result
};

/// out = a + b. `out` may be one of them.
struct add_args {
  float* out;
  const float* a;
  const float* b;
  uint64_t count;
  rounding round;
};

/// out = in / 2 * (1 + erf(in / sqrt 2)). `out` may be `in`.
struct gelu_args {
  float* out;
  const float* in;
  uint64_t count;
  rounding round;
};

/// Cells of side x side patches become rows, the grid being filled up with zeros to whole cells:
///   out[cell][c * side^2 + y * side + x] = in[patch (y, x) of the cell][c]
struct merge_cells_args {
  float* out;       // [ceil(grid_rows / side) * ceil(grid_columns / side)][width * side^2]
  const float* in;  // [grid_rows * grid_columns][width]
  uint32_t grid_rows;
  uint32_t grid_columns;
  uint32_t side;  // > 0
  uint32_t width;
};

}  // namespace deepinfer::kernels
