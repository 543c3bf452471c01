#pragma once

#include "kernels/cpu/linear_plan.hpp"
#include "kernels/cpu/linear_rows.hpp"

#include <algorithm>
#include <cstddef>

/// Products of many input rows: weights are decoded into scratch memory, once for all rows of a
/// unit.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

// Columns [first, first + columns) of one weight row into its place in the packed tile, zeros up to
// the next multiple of 64. A row's piece is too short for the processor to foresee the next one:
// what lies `ahead` bytes on is fetched meanwhile.
template <weight_format Format>
DEEPINFER_INLINE void decode_columns(const decoder<Format>& decode,
                                     const weight_row& row,
                                     size_t first,
                                     size_t columns,
                                     size_t ahead,
                                     float* out) {
  constexpr size_t step = tile_outputs * lane_count;
  for (size_t k = 0; k < columns; k += block_columns) {
    vec16 w[4];
    const uint8_t* codes = row.values + code_bytes(Format, first + k);
    const uint8_t* scales = scales_at<Format>(row, first + k);
    for (size_t b = 0; b < code_bytes(Format, block_columns); b += line_bytes)
      __builtin_prefetch(codes + ahead + b);
    if (columns - k >= block_columns)
      decode.block(codes, scales, w);
    else
      decode_tail<Format>(decode, codes, scales, columns - k, w);
    for (size_t t = 0; t < 4; ++t, out += step) store(out, w[t]);
  }
}

// The columns of a tile's input rows as [step][rows][16], zeros up to the next multiple of 64.
inline void pack_inputs(const float* x, size_t stride, size_t rows, size_t columns, float* out) {
  const size_t steps = (columns + block_columns - 1) / block_columns * (block_columns / lane_count);
  for (size_t m = 0; m < rows; ++m) {
    const float* row = x + m * stride;
    float* at = out + m * lane_count;
    for (size_t s = 0; s < steps; ++s, at += rows * lane_count) {
      const size_t k = s * lane_count;
      __builtin_prefetch(row + 2 * stride + k);
      store(at, k + lane_count <= columns ? load(row + k)
                : k < columns             ? load_first(row + k, columns - k)
                                          : all(0.0f));
    }
  }
}

// A unit of many rows. Column blocks come outermost: a tile of inputs and one of weights lie in L1
// together, and the sums wait in `totals` for the next block.
template <weight_format Format>
void multiply_unit(const linear_args& a, const linear_unit& unit, float* memory) {
  const decoder<Format> decode;
  const size_t width = a.weight.width, rows = unit.last_row - unit.first_row;
  const size_t outputs = unit.last_output - unit.first_output;
  const size_t row_tiles = (rows + tile_rows - 1) / tile_rows;
  const size_t output_tiles = (outputs + tile_outputs - 1) / tile_outputs;
  const size_t blocks = (width + linear_columns - 1) / linear_columns;
  const size_t columns_each = ((width + blocks - 1) / blocks + 63) / 64 * 64;
  // Few rows: what was just decoded is used up while it lies in L1.
  const size_t group = rows <= linear_few_rows ? 1 : output_tiles;
  float* const inputs = memory;
  float* const weights = inputs + linear_row_block * linear_columns;
  float* const totals = weights + linear_outputs * linear_columns;
  const auto first_of = [&](size_t tile) {
    return tile * rows / row_tiles;
  };  // as even as possible
  for (size_t k = 0; k < width; k += columns_each) {
    const size_t columns = std::min(columns_each, width - k);
    const tile_span span{(columns + 63) / 64 * 4, k == 0, k + columns == width};
    for (size_t tile = 0; tile < row_tiles; ++tile)
      pack_inputs(a.in + (unit.first_row + first_of(tile)) * a.in_stride + k, a.in_stride,
                  first_of(tile + 1) - first_of(tile), columns,
                  inputs + tile * tile_rows * linear_columns);
    for (size_t begin = 0; begin < output_tiles; begin += group) {
      for (size_t n = 0; n < group * tile_outputs; ++n) {
        const size_t o = unit.first_output + begin * tile_outputs + n;
        decode_columns(decode, row_of(a.weight, o), k, columns, 4 * row_bytes(a.weight),
                       weights + n / tile_outputs * tile_outputs * linear_columns +
                           n % tile_outputs * lane_count);
      }
      for (size_t tile = 0; tile < row_tiles; ++tile)
        for (size_t n = begin; n < begin + group; ++n) {
          alignas(64) float sums[tile_rows * tile_outputs];
          const size_t first = first_of(tile), count = first_of(tile + 1) - first;
          multiply_rows(count, inputs + tile * tile_rows * linear_columns,
                        weights + (n - begin) * tile_outputs * linear_columns, span,
                        totals + (tile * output_tiles + n) * tile_floats, sums);
          if (!span.last) continue;
          const size_t o = n * tile_outputs, stored = std::min(tile_outputs, outputs - o);
          for (size_t m = 0; m < count; ++m)
            finish(a, unit.first_row + first + m, unit.first_output + o, sums + m * tile_outputs,
                   stored);
        }
    }
  }
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
