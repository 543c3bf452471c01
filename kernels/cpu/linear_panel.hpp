#pragma once

#include "kernels/cpu/linear_plan.hpp"
#include "kernels/cpu/linear_rows.hpp"

#include <algorithm>
#include <cstddef>

/// Products of many input rows: weights are decoded into scratch memory, once for all rows of a
/// unit.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

/// Columns [first, first + columns) of one weight row into its place in the packed tile, zeros up
/// to the next multiple of 64. A row's piece is too short for the processor to foresee the next
/// one: what lies `ahead` bytes on is fetched meanwhile.
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

/// The columns of a tile's input rows as [step][rows][16], zeros up to the next multiple of 64.
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

/// A unit of many rows. Column blocks come outermost: the unit's inputs are packed once for all its
/// outputs, a tile of inputs and one of weights lie in L1 together, and the sums wait in `totals_`
/// for the next block.
template <weight_format Format>
class panel_product {
public:
  DEEPINFER_INLINE panel_product(const linear_args& a, const linear_unit& unit, float* memory)
      : a_(a),
        unit_(unit),
        rows_(unit.last_row - unit.first_row),
        outputs_(unit.last_output - unit.first_output),
        row_tiles_((rows_ + tile_rows - 1) / tile_rows),
        output_tiles_((outputs_ + tile_outputs - 1) / tile_outputs),
        inputs_(memory),
        weights_(inputs_ + linear_row_block * linear_columns),
        totals_(weights_ + linear_group * linear_columns) {}

  void run() {
    const size_t width = a_.weight.width;
    const size_t blocks = (width + linear_columns - 1) / linear_columns;
    const size_t each = ((width + blocks - 1) / blocks + 63) / 64 * 64;
    // Few rows: what was just decoded is used up while it lies in L1.
    const size_t group = rows_ <= linear_few_rows ? 1 : linear_group / tile_outputs;
    for (size_t k = 0; k < width; k += each) {
      const size_t columns = std::min(each, width - k);
      pack(k, columns);
      const tile_span span{(columns + 63) / 64 * 4, k == 0, k + columns == width};
      for (size_t begin = 0; begin < output_tiles_; begin += group) {
        const size_t end = std::min(begin + group, output_tiles_);
        decode(begin, end, k, columns);
        multiply(begin, end, span);
      }
    }
  }

private:
  // As even as possible: six and two rows take longer than four and four.
  [[nodiscard]] size_t first_of(size_t tile) const { return tile * rows_ / row_tiles_; }
  [[nodiscard]] float* inputs_of(size_t tile) const {
    return inputs_ + tile * tile_rows * linear_columns;
  }

  void pack(size_t k, size_t columns) {
    for (size_t tile = 0; tile < row_tiles_; ++tile)
      pack_inputs(a_.in + (unit_.first_row + first_of(tile)) * a_.in_stride + k, a_.in_stride,
                  first_of(tile + 1) - first_of(tile), columns, inputs_of(tile));
  }

  void decode(size_t begin, size_t end, size_t k, size_t columns) {
    const decoder<Format> decode;
    const size_t ahead = tile_outputs * row_bytes(a_.weight);
    float* tile = weights_;
    for (size_t t = begin; t < end; ++t, tile += tile_outputs * linear_columns)
      for (size_t n = 0; n < tile_outputs; ++n)
        decode_columns(decode, row_of(a_.weight, unit_.first_output + t * tile_outputs + n), k,
                       columns, ahead, tile + n * lane_count);
  }

  void multiply(size_t begin, size_t end, const tile_span& span) {
    for (size_t tile = 0; tile < row_tiles_; ++tile)
      for (size_t t = begin; t < end; ++t) {
        alignas(64) float sums[tile_rows * tile_outputs];
        const size_t first = first_of(tile), count = first_of(tile + 1) - first;
        multiply_rows(count, inputs_of(tile),
                      weights_ + (t - begin) * tile_outputs * linear_columns, span,
                      totals_ + (tile * output_tiles_ + t) * tile_floats, sums);
        if (!span.last) continue;
        const size_t o = t * tile_outputs, stored = std::min(tile_outputs, outputs_ - o);
        for (size_t m = 0; m < count; ++m)
          finish(a_, unit_.first_row + first + m, unit_.first_output + o, sums + m * tile_outputs,
                 stored);
      }
  }

  const linear_args& a_;
  const linear_unit& unit_;
  const size_t rows_, outputs_, row_tiles_, output_tiles_;
  float* const inputs_;
  float* const weights_;
  float* const totals_;
};

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
