#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/decode.hpp"
#include "kernels/cpu/linear_plan.hpp"
#include "kernels/cpu/linear_stream.hpp"
#include "kernels/cpu/linear_tile.hpp"
#include "kernels/cpu/parallel.hpp"

#include <algorithm>
#include <cstddef>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

constexpr size_t line_bytes = 64;

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
DEEPINFER_INLINE void finish(
    const linear_args& a, size_t r, size_t o, const float* sums, size_t count) {
  float* out = a.out + r * a.out_stride + o;
  if (a.bias == nullptr && a.round == rounding::none && count == tile_outputs) {
    std::memcpy(out, sums, tile_outputs * sizeof *out);
    return;
  }
  for (size_t n = 0; n < count; ++n) {
    const float sum = a.bias == nullptr ? sums[n] : sums[n] + a.bias[o + n];
    out[n] = rounded(sum, a.round);
  }
}

// Input rows as [block of 64 columns][row][64], arranged for the decoder, zeros behind the last.
// Tells whether all of them are of ordinary size.
template <weight_format Format, size_t Rows>
bool arrange_inputs(const linear_args& a, size_t first_row, float* out) {
  using order = stream_decoder<Format>;
  const size_t width = a.weight.width;
  bool ordinary = true;
  for (size_t k = 0; k < width; k += block_columns)
    for (size_t m = 0; m < Rows; ++m) {
      const float* x = a.in + (first_row + m) * a.in_stride + k;
      for (size_t t = 0; t < 4; ++t, out += lane_count) {
        const size_t at = k + t * lane_count;
        const size_t left = at < width ? width - at : 0;
        const vec16 some = left >= lane_count ? load(x + t * lane_count)
                           : left > 0         ? load_first(x + t * lane_count, left)
                                              : all(0.0f);
        if (order::scales_inputs) ordinary = ordinary && are_ordinary(some);
        store(out, order::arrange(some));
      }
    }
  return ordinary;
}

// Arranged inputs times the scales of their columns.
template <size_t Rows>
void scale_inputs(const float* x, const uint8_t* scales, size_t width, float factor, float* out) {
  for (size_t k = 0; k < width; k += 32) {
    const vec16 scale = all(decoding.scale[*scales++] * factor);
    const size_t at = k / block_columns * Rows * block_columns + k % block_columns;
    for (size_t m = 0; m < Rows; ++m)
      for (size_t t = 0; t < 32; t += lane_count) {
        const size_t i = at + m * block_columns + t;
        store(out + i, load(x + i) * scale);
      }
  }
}

// Four weight rows times all input rows.
template <weight_format Format, size_t Rows, class Decoder>
DEEPINFER_INLINE void stream_tile(const Decoder& decode,
                                  const weight_row (&row)[tile_outputs],
                                  const float* x,
                                  size_t width,
                                  vec16 (&total)[Rows][tile_outputs]) {
  constexpr size_t outputs = tile_outputs;
  constexpr size_t ahead = 512;  // bytes: the latency of memory at full speed
  const size_t whole = width / block_columns * block_columns;
  for (size_t m = 0; m < Rows; ++m)
    for (size_t n = 0; n < outputs; ++n) total[m][n] = all(0.0f);
  for (size_t k = 0; k < whole; k += block_columns, x += Rows * block_columns) {
#pragma GCC unroll 4
    for (size_t n = 0; n < outputs; ++n) {
      vec16 w[4];
      const uint8_t* codes = row[n].values + code_bytes(Format, k);
      for (size_t b = 0; b < code_bytes(Format, block_columns); b += line_bytes)
        __builtin_prefetch(codes + ahead + b);
      decode.block(codes, scales_at<Format>(row[n], k), w);
#pragma GCC unroll 4
      for (size_t t = 0; t < 4; ++t)
#pragma GCC unroll 4
        for (size_t m = 0; m < Rows; ++m)
          total[m][n] = fma(w[t], load(x + m * block_columns + t * lane_count), total[m][n]);
    }
  }
  if (whole == width) return;
  for (size_t n = 0; n < outputs; ++n) {
    vec16 w[4];
    decode_tail<Format>(decode, row[n].values + code_bytes(Format, whole),
                        scales_at<Format>(row[n], whole), width - whole, w);
    for (size_t t = 0; t < 4; ++t)
      for (size_t m = 0; m < Rows; ++m)
        total[m][n] = fma(w[t], load(x + m * block_columns + t * lane_count), total[m][n]);
  }
}

// Weights that the fast decoder does not take, multiplied as the many-row path does it.
template <weight_format Format, size_t Rows>
__attribute__((noinline)) void plain_tile(const weight_row (&row)[tile_outputs],
                                          const float* x,
                                          size_t width,
                                          vec16 (&total)[Rows][tile_outputs]) {
  // `x` is arranged: so must the weights be.
  struct arranged : decoder<Format> {
    DEEPINFER_INLINE arranged() {}
    DEEPINFER_INLINE void block(const uint8_t* values, const uint8_t* scales, vec16 (&w)[4]) const {
      decoder<Format>::block(values, scales, w);
      for (vec16& v : w) v = stream_decoder<Format>::arrange(v);
    }
  };
  stream_tile<Format, Rows>(arranged{}, row, x, width, total);
}

// The four weight rows of a tile begin a quarter of the outputs apart, so that each is read on and
// on: the processor fetches ahead.
template <weight_format Format, size_t Rows, class Tile>
DEEPINFER_INLINE void stream_tiles(const linear_args& a,
                                   const linear_unit& unit,
                                   const Tile& tile) {
  const size_t count = unit.last_output - unit.first_output;
  const size_t apart = (count + tile_outputs - 1) / tile_outputs;
  for (size_t i = 0; i < apart; ++i) {
    weight_row row[tile_outputs];
    for (size_t n = 0; n < tile_outputs; ++n)
      row[n] = row_of(a.weight, std::min(unit.first_output + n * apart + i, unit.last_output - 1));
    vec16 total[Rows][tile_outputs];
    tile(row, total);
    for (size_t m = 0; m < Rows; ++m) {
      float sums[tile_outputs];
      for (vec16& t : total[m]) t = stream_decoder<Format>::restore(t);
      sum4(total[m], sums);
      for (size_t n = 0; n < tile_outputs; ++n) {
        const size_t o = unit.first_output + n * apart + i;
        if (o < unit.last_output) finish(a, unit.first_row + m, o, sums + n, 1);
      }
    }
  }
}

// Few input rows.
template <weight_format Format, size_t Rows>
void stream_outputs(const linear_args& a, const linear_unit& unit, float* memory) {
  using special = stream_decoder<Format>;
  const special decode;
  const size_t width = a.weight.width, scale_count = has_scales(Format) ? (width + 31) / 32 : 0;
  const bool ordinary = arrange_inputs<Format, Rows>(a, unit.first_row, memory);
  float* const scaled = memory + linear_stream_floats;
  // One row of scales serves 32 outputs when they go into the inputs.
  const size_t step = special::scales_inputs ? 32 : unit.last_output - unit.first_output;
  for (size_t o = unit.first_output; o < unit.last_output; o += step) {
    linear_unit part = unit;
    part.first_output = o;
    part.last_output = std::min(o + step, unit.last_output);
    const uint8_t* scales = row_of(a.weight, o).scales;
    const bool special_inputs =
        special::scales_inputs && ordinary && are_ordinary(scales, scale_count);
    if (special_inputs) scale_inputs<Rows>(memory, scales, width, special::input_factor, scaled);
    const float* x = special_inputs ? scaled : memory;
    stream_tiles<Format, Rows>(
        a, part, [&](const weight_row(&row)[tile_outputs], vec16(&total)[Rows][tile_outputs]) {
          bool takes = special_inputs || !special::scales_inputs;
          for (const weight_row& r : row) takes = takes && special::takes(r.scales, scale_count);
          if (takes)
            stream_tile<Format, Rows>(decode, row, x, width, total);
          else
            plain_tile<Format, Rows>(row, x, width, total);
        });
  }
}

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
void pack_inputs(const float* x, size_t stride, size_t rows, size_t columns, float* out) {
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

template <weight_format Format>
void run_unit(const linear_args& a, const linear_unit& unit, const worker& self) {
  const size_t rows = unit.last_row - unit.first_row;
  auto* memory = reinterpret_cast<float*>(self.scratch);
  if (rows <= stream_rows && rows * (a.weight.width + block_columns) <= linear_stream_floats) {
    if (rows == 1) return stream_outputs<Format, 1>(a, unit, memory);
    if (rows == 2) return stream_outputs<Format, 2>(a, unit, memory);
    if constexpr (stream_rows > 2) {
      if (rows == 3) return stream_outputs<Format, 3>(a, unit, memory);
      return stream_outputs<Format, 4>(a, unit, memory);
    }
  }
  for (size_t o = unit.first_output; o < unit.last_output; o += linear_outputs) {
    linear_unit part = unit;
    part.first_output = o;
    part.last_output = std::min(o + linear_outputs, unit.last_output);
    multiply_unit<Format>(a, part, memory);
  }
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
      decode_tail<Format>(decode, codes, scales_at<Format>(row, k), columns, w);
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
