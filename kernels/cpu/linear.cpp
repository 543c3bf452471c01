#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/decode.hpp"
#include "kernels/cpu/linear_plan.hpp"
#include "kernels/cpu/linear_tile.hpp"
#include "kernels/cpu/parallel.hpp"

#include <algorithm>
#include <cstddef>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

struct weight_row {
  const uint8_t* values;
  const uint8_t* scales;
};

// Rows behind the last one repeat it: their sums are never stored.
DEEPINFER_INLINE weight_row row_of(const weight_matrix& w, size_t row) {
  const size_t r = std::min<size_t>(row, w.rows - 1);
  return {w.values + r * row_bytes(w),
          w.scales == nullptr ? nullptr : w.scales + scale_offset(w, r)};
}

template <weight_format Format>
DEEPINFER_INLINE const uint8_t* scales_at(const weight_row& row, size_t column) {
  return has_scales(Format) ? row.scales + column / 32 : nullptr;
}

// Adds the bias, rounds and stores `count` sums of row `r` from output `o` on.
DEEPINFER_INLINE void finish(const linear_args& a, size_t r, size_t o, const float* sums) {
  const size_t count = std::min<size_t>(tile_outputs, a.weight.rows - o);
  float* out = a.out + r * a.out_stride + o;
  for (size_t n = 0; n < count; ++n) {
    const float sum = a.bias == nullptr ? sums[n] : sums[n] + a.bias[o + n];
    out[n] = rounded(sum, a.round);
  }
}

// One or two input rows: weights go from memory through registers into the sums.
template <weight_format Format, size_t Rows>
void stream_outputs(const linear_args& a, const linear_unit& unit) {
  constexpr size_t outputs = tile_outputs;
  const decoder<Format> decode;
  const size_t width = a.weight.width, whole = width / block_columns * block_columns;
  const float* x = a.in + unit.first_row * a.in_stride;
  const size_t ahead = outputs * row_bytes(a.weight);
  for (size_t o = unit.first_output; o < unit.last_output; o += outputs) {
    weight_row row[outputs];
    for (size_t n = 0; n < outputs; ++n) row[n] = row_of(a.weight, o + n);
    vec16 total[outputs][Rows];
    for (size_t n = 0; n < outputs; ++n)
      for (size_t m = 0; m < Rows; ++m) total[n][m] = all(0.0f);
    for (size_t k = 0; k < whole; k += block_columns) {
#pragma GCC unroll 4
      for (size_t n = 0; n < outputs; ++n) {
        vec16 w[4];
        const uint8_t* codes = row[n].values + code_bytes(Format, k);
        __builtin_prefetch(codes + ahead);  // the same place four rows on
        decode.block(codes, scales_at<Format>(row[n], k), w);
#pragma GCC unroll 4
        for (size_t t = 0; t < 4; ++t)
#pragma GCC unroll 4
          for (size_t m = 0; m < Rows; ++m)
            total[n][m] = fma(w[t], load(x + m * a.in_stride + k + 16 * t), total[n][m]);
      }
    }
    if (whole < width)
      for (size_t n = 0; n < outputs; ++n) {
        vec16 w[4];
        decode_tail(decode, row[n].values + code_bytes(Format, whole),
                    scales_at<Format>(row[n], whole), width - whole, w);
        for (size_t t = 0; t < 4 && whole + 16 * t < width; ++t)
          for (size_t m = 0; m < Rows; ++m)
            total[n][m] =
                fma(w[t], load_first(x + m * a.in_stride + whole + 16 * t, width - whole - 16 * t),
                    total[n][m]);
      }
    for (size_t m = 0; m < Rows; ++m) {
      float sums[outputs];
      for (size_t n = 0; n < outputs; ++n) sums[n] = sum(total[n][m]);
      finish(a, unit.first_row + m, o, sums);
    }
  }
}

// Columns [first, first + columns) of one weight row, zeros up to the next multiple of 64.
template <weight_format Format>
void decode_columns(const weight_row& row, size_t first, size_t columns, float* out) {
  const decoder<Format> decode;
  const uint8_t* codes = row.values + code_bytes(Format, first);
  vec16 w[4];
  size_t k = 0;
  for (; k + block_columns <= columns; k += block_columns) {
    decode.block(codes + code_bytes(Format, k), scales_at<Format>(row, first + k), w);
    for (size_t t = 0; t < 4; ++t) store(out + k + 16 * t, w[t]);
  }
  if (k < columns) {
    decode_tail(decode, codes + code_bytes(Format, k), scales_at<Format>(row, first + k),
                columns - k, w);
    for (size_t t = 0; t < 4; ++t) store(out + k + 16 * t, w[t]);
  }
}

struct panel_memory {
  float* weights;  // [group][linear_columns]
  float* totals;   // [row tiles][output tiles][tile_rows][tile_outputs][16]
};

// All rows of the unit times a group of outputs.
template <weight_format Format>
void multiply_group(const linear_args& a,
                    const linear_unit& unit,
                    size_t first_output,
                    size_t outputs,
                    const panel_memory& memory) {
  constexpr size_t tile_floats = tile_rows * tile_outputs * lane_count;
  const size_t width = a.weight.width, rows = unit.last_row - unit.first_row;
  const size_t row_tiles = (rows + tile_rows - 1) / tile_rows;
  const size_t output_tiles = (outputs + tile_outputs - 1) / tile_outputs;
  for (size_t k = 0; k < width; k += linear_columns) {
    const size_t columns = std::min(linear_columns, width - k);
    for (size_t n = 0; n < output_tiles * tile_outputs; ++n)
      decode_columns<Format>(row_of(a.weight, first_output + n), k, columns,
                             memory.weights + n * linear_columns);
    const tile_span span{columns, a.in_stride, linear_columns, k == 0};
    float* total = memory.totals;
    for (size_t tile = 0; tile < row_tiles; ++tile) {
      // As even as possible: six and two rows take longer than four and four.
      const size_t first = tile * rows / row_tiles, last = (tile + 1) * rows / row_tiles;
      const float* x = a.in + (unit.first_row + first) * a.in_stride + k;
      for (size_t n = 0; n < output_tiles; ++n, total += tile_floats)
        multiply_rows(last - first, x, memory.weights + n * tile_outputs * linear_columns, span,
                      total);
    }
  }
  const float* total = memory.totals;
  for (size_t tile = 0; tile < row_tiles; ++tile) {
    const size_t first = tile * rows / row_tiles, last = (tile + 1) * rows / row_tiles;
    for (size_t n = 0; n < output_tiles; ++n, total += tile_floats)
      for (size_t m = first; m < last; ++m) {
        float sums[tile_outputs];
        for (size_t i = 0; i < tile_outputs; ++i)
          sums[i] = sum(load(total + ((m - first) * tile_outputs + i) * lane_count));
        finish(a, unit.first_row + m, first_output + n * tile_outputs, sums);
      }
  }
}

template <weight_format Format>
void run_unit(const linear_args& a, const linear_unit& unit, const worker& self) {
  const size_t rows = unit.last_row - unit.first_row;
  if (rows == 1) return stream_outputs<Format, 1>(a, unit);
  if (rows == 2) return stream_outputs<Format, 2>(a, unit);
  panel_memory memory{};
  memory.weights = reinterpret_cast<float*>(self.scratch);
  memory.totals = memory.weights + linear_group * linear_columns;
  // Few rows: what was just decoded is used up while it lies in L1.
  const size_t group = rows <= 16 ? tile_outputs : linear_group;
  for (size_t o = unit.first_output; o < unit.last_output; o += group)
    multiply_group<Format>(a, unit, o, std::min<size_t>(group, unit.last_output - o), memory);
}

template <weight_format Format>
void dequant_row(const weight_row& row, size_t width, float* out) {
  const decoder<Format> decode;
  vec16 w[4];
  for (size_t k = 0; k < width; k += block_columns) {
    const uint8_t* codes = row.values + code_bytes(Format, k);
    const size_t columns = width - k;
    if (columns >= block_columns)
      decode.block(codes, scales_at<Format>(row, k), w);
    else
      decode_tail(decode, codes, scales_at<Format>(row, k), columns, w);
    for (size_t t = 0; t < 4 && 16 * t < columns; ++t)
      store_first(out + k + 16 * t, w[t], columns - 16 * t);
  }
}

void dequant_row(const weight_row& row, const weight_matrix& w, float* out) {
  switch (w.format) {
    case weight_format::f32:
      return dequant_row<weight_format::f32>(row, w.width, out);
    case weight_format::bf16:
      return dequant_row<weight_format::bf16>(row, w.width, out);
    case weight_format::fp8:
      return dequant_row<weight_format::fp8>(row, w.width, out);
    case weight_format::fp4:
      return dequant_row<weight_format::fp4>(row, w.width, out);
  }
}

void run_unit(const linear_args& a, const linear_unit& unit, const worker& self) {
  switch (a.weight.format) {
    case weight_format::f32:
      return run_unit<weight_format::f32>(a, unit, self);
    case weight_format::bf16:
      return run_unit<weight_format::bf16>(a, unit, self);
    case weight_format::fp8:
      return run_unit<weight_format::fp8>(a, unit, self);
    case weight_format::fp4:
      return run_unit<weight_format::fp4>(a, unit, self);
  }
}

}  // namespace

void linear(stream& queue, const linear_batch_args& batch) {
  for (uint32_t first = 0; first < batch.count; first += linear_plan::max_items) {
    const uint32_t count = std::min(linear_plan::max_items, batch.count - first);
    const linear_plan plan{{batch.items + first, count}, thread_count(queue)};
    parallel(queue, plan.units(), plan.grain(),
             [&plan](const worker& self, size_t first_unit, size_t last_unit) {
               for (size_t u = first_unit; u < last_unit; ++u) {
                 const linear_unit unit = plan.unit(u);
                 run_unit(*unit.args, unit, self);
               }
             });
  }
}

void dequant(stream& queue, const dequant_args& a) {
  const weight_matrix& w = a.weight;
  if (w.rows == 0 || w.width == 0) return;
  const size_t grain = std::max<size_t>(1, 65536 / w.width);
  parallel(queue, w.rows, grain, [&a, &w](const worker&, size_t first, size_t last) {
    for (size_t r = first; r < last; ++r) dequant_row(row_of(w, r), w, a.out + r * w.width);
  });
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
