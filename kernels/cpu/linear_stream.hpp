#pragma once

#include "kernels/cpu/linear_plan.hpp"
#include "kernels/cpu/linear_rows.hpp"
#include "kernels/cpu/stream_decoder.hpp"

#include <algorithm>
#include <cstddef>

/// Products of few input rows: weights go from memory through registers into the sums.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

// Input rows as [block of 64 columns][row][64], arranged for the decoder, zeros behind the last.
// Tells whether all of them are of ordinary size.
template <weight_format Format, size_t Rows>
bool arrange_inputs(const linear_args& a, size_t first_row, float* out) {
  using order = stream_decoder<Format>;
  const size_t width = a.weight.width;
  uint32_t strange = 0;
  for (size_t k = 0; k < width; k += block_columns)
    for (size_t m = 0; m < Rows; ++m) {
      const float* x = a.in + (first_row + m) * a.in_stride + k;
      for (size_t t = 0; t < 4; ++t, out += lane_count) {
        const size_t at = k + t * lane_count;
        const size_t left = at < width ? width - at : 0;
        const vec16 some = left >= lane_count ? load(x + t * lane_count)
                           : left > 0         ? load_first(x + t * lane_count, left)
                                              : all(0.0f);
        if (order::scales_inputs) strange |= unusual(some);
        store(out, order::arrange(some));
      }
    }
  return strange == 0;
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

/// Totals of a tile: four weight rows times few input rows, two times more of them; so many that
/// the sums, the weights and the decoder's tables fit the registers.
template <size_t Rows>
inline constexpr size_t stream_tile_outputs = Rows <= 4 ? 4 : 2;

template <size_t Rows>
struct stream_totals {
  static constexpr size_t outputs = stream_tile_outputs<Rows>;
  vec16 sum[Rows][outputs];
};

/// Columns [first, last) of a stream; `ahead` bytes on lies what is fetched meanwhile.
struct stream_span {
  size_t first, last;
  size_t ahead;
};

/// A whole block of a row, and a fetch of what lies ahead.
template <weight_format Format, class Decoder>
DEEPINFER_INLINE void decode_ahead(
    const Decoder& decode, const weight_row& row, size_t column, size_t ahead, vec16 (&w)[4]) {
  const uint8_t* codes = row.values + code_bytes(Format, column);
  for (size_t b = 0; b < code_bytes(Format, block_columns); b += line_bytes)
    __builtin_prefetch(codes + ahead + b);
  decode.block(codes, scales_at<Format>(row, column), w);
}

/// A tile's weight rows times all input rows, over the columns of the span.
template <weight_format Format, size_t Rows, class Decoder>
DEEPINFER_INLINE void stream_tile(const Decoder& decode,
                                  const weight_row (&row)[stream_tile_outputs<Rows>],
                                  const float* x,
                                  const stream_span& span,
                                  stream_totals<Rows>& total) {
  constexpr size_t outputs = stream_tile_outputs<Rows>;
  const size_t whole = span.last / block_columns * block_columns;
  x += span.first * Rows;
  // Copied: what others have the address of would be stored in every step.
  vec16 sum[Rows][outputs];
#pragma GCC unroll 8
  for (size_t m = 0; m < Rows; ++m)
#pragma GCC unroll 4
    for (size_t n = 0; n < outputs; ++n) sum[m][n] = total.sum[m][n];
  for (size_t k = span.first; k < whole; k += block_columns, x += Rows * block_columns) {
    if constexpr (outputs == 4) {
#pragma GCC unroll 4
      for (size_t n = 0; n < outputs; ++n) {
        vec16 w[4];
        decode_ahead<Format>(decode, row[n], k, span.ahead, w);
#pragma GCC unroll 4
        for (size_t t = 0; t < 4; ++t)
#pragma GCC unroll 8
          for (size_t m = 0; m < Rows; ++m)
            sum[m][n] = fma(w[t], load(x + m * block_columns + t * lane_count), sum[m][n]);
      }
    } else {
      // Each input is loaded once for both weight rows: one load a cycle is all there is.
      vec16 w[outputs][4];
#pragma GCC unroll 4
      for (size_t n = 0; n < outputs; ++n)
        decode_ahead<Format>(decode, row[n], k, span.ahead, w[n]);
#pragma GCC unroll 4
      for (size_t t = 0; t < 4; ++t)
#pragma GCC unroll 8
        for (size_t m = 0; m < Rows; ++m) {
          const vec16 in = load(x + m * block_columns + t * lane_count);
#pragma GCC unroll 4
          for (size_t n = 0; n < outputs; ++n) sum[m][n] = fma(w[n][t], in, sum[m][n]);
        }
    }
  }
  if (whole < span.last) {
#pragma GCC unroll 4
    for (size_t n = 0; n < outputs; ++n) {
      vec16 w[4];
      decode_tail<Format>(decode, row[n].values + code_bytes(Format, whole),
                          scales_at<Format>(row[n], whole), span.last - whole, w);
#pragma GCC unroll 4
      for (size_t t = 0; t < 4; ++t)
#pragma GCC unroll 8
        for (size_t m = 0; m < Rows; ++m)
          sum[m][n] = fma(w[t], load(x + m * block_columns + t * lane_count), sum[m][n]);
    }
  }
#pragma GCC unroll 8
  for (size_t m = 0; m < Rows; ++m)
#pragma GCC unroll 4
    for (size_t n = 0; n < outputs; ++n) total.sum[m][n] = sum[m][n];
}

/// Weights that the fast decoder does not take, multiplied as the many-row path does it.
template <weight_format Format, size_t Rows>
__attribute__((noinline)) void plain_tile(const weight_row (&row)[stream_tile_outputs<Rows>],
                                          const float* x,
                                          const stream_span& span,
                                          stream_totals<Rows>& total) {
  // `x` is arranged: so must the weights be.
  struct arranged : decoder<Format> {
    DEEPINFER_INLINE arranged() {}
    DEEPINFER_INLINE void block(const uint8_t* values, const uint8_t* scales, vec16 (&w)[4]) const {
      decoder<Format>::block(values, scales, w);
      for (vec16& v : w) v = stream_decoder<Format>::arrange(v);
    }
  };
  stream_tile<Format, Rows>(arranged{}, row, x, span, total);
}

/// Puts the lanes in order, sums them up and stores outputs `first`, `first + apart`, ...
template <weight_format Format, size_t Rows>
DEEPINFER_INLINE void finish_tile(const linear_args& a,
                                  const linear_unit& unit,
                                  size_t first,
                                  size_t apart,
                                  const stream_totals<Rows>& total) {
  constexpr size_t outputs = stream_tile_outputs<Rows>;
  for (size_t m = 0; m < Rows; m += 4 / outputs) {
    vec16 lanes[4];
    float sums[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i)
      lanes[i] = stream_decoder<Format>::restore(
          total.sum[std::min(m + i / outputs, Rows - 1)][i % outputs]);
    sum4(lanes, sums);
    for (size_t i = 0; i < 4; ++i) {
      const size_t o = first + i % outputs * apart, row = m + i / outputs;
      if (o < unit.last_output && row < Rows) finish(a, unit.first_row + row, o, sums + i, 1);
    }
  }
}

/// Columns that are taken at once: all, or so many that the inputs stay near; fewer when the
/// weights are wide, too. Measured.
[[nodiscard]] constexpr size_t stream_columns(weight_format format, size_t rows, size_t width) {
  const size_t block = (has_scales(format) ? 8192 : 4096) / rows / block_columns * block_columns;
  return rows <= 4 || width <= block + block / 4 ? width : block;
}

/// Few input rows. The weight rows of a tile begin a part of the outputs away from each other, so
/// that each is read on and on: the processor fetches ahead. Where the inputs would not stay in L1,
/// columns are taken in blocks, and the sums wait in `waiting`.
template <weight_format Format, size_t Rows, class Tile>
DEEPINFER_INLINE void stream_tiles(const linear_args& a,
                                   const linear_unit& unit,
                                   float* waiting,
                                   const Tile& tile) {
  constexpr size_t outputs = stream_tile_outputs<Rows>;
  constexpr size_t totals_floats = Rows * outputs * lane_count;
  const size_t apart = (unit.last_output - unit.first_output + outputs - 1) / outputs;
  const size_t width = a.weight.width, step = stream_columns(Format, Rows, width);
  for (size_t k = 0; k < width; k += step) {
    // Fetched meanwhile: what comes soon in the same row, or the same columns of the next.
    const stream_span span{k, std::min(k + step, width),
                           step < width ? row_bytes(a.weight) : size_t{512}};
    for (size_t i = 0; i < apart; ++i) {
      weight_row row[outputs];
      for (size_t n = 0; n < outputs; ++n)
        row[n] =
            row_of(a.weight, std::min(unit.first_output + n * apart + i, unit.last_output - 1));
      stream_totals<Rows> total;
      float* const wait = waiting + i * totals_floats;
#pragma GCC unroll 8
      for (size_t m = 0; m < Rows; ++m)
#pragma GCC unroll 4
        for (size_t n = 0; n < outputs; ++n)
          total.sum[m][n] = k == 0 ? all(0.0f) : load(wait + (m * outputs + n) * lane_count);
      tile(row, span, total);
      if (span.last == width) {
        finish_tile<Format, Rows>(a, unit, unit.first_output + i, apart, total);
        continue;
      }
#pragma GCC unroll 8
      for (size_t m = 0; m < Rows; ++m)
#pragma GCC unroll 4
        for (size_t n = 0; n < outputs; ++n)
          store(wait + (m * outputs + n) * lane_count, total.sum[m][n]);
    }
  }
}

template <weight_format Format, size_t Rows>
void stream_outputs(const linear_args& a, const linear_unit& unit, float* memory) {
  using special = stream_decoder<Format>;
  const special decode;
  const size_t width = a.weight.width, scale_count = has_scales(Format) ? (width + 31) / 32 : 0;
  const bool ordinary = arrange_inputs<Format, Rows>(a, unit.first_row, memory);
  float* const scaled = memory + linear_stream_floats;
  float* const waiting = scaled + linear_stream_floats;
  // One row of scales serves 32 outputs when they go into the inputs.
  const size_t step = special::scales_inputs ? 32 : linear_stream_outputs;
  for (size_t o = unit.first_output; o < unit.last_output; o += step) {
    linear_unit piece = unit;
    piece.first_output = o;
    piece.last_output = std::min(o + step, unit.last_output);
    const uint8_t* scales = row_of(a.weight, o).scales;
    const bool special_inputs =
        special::scales_inputs && ordinary && are_ordinary(scales, scale_count);
    if (special_inputs) scale_inputs<Rows>(memory, scales, width, special::input_factor, scaled);
    const float* x = special_inputs ? scaled : memory;
    stream_tiles<Format, Rows>(
        a, piece, waiting,
        [&](const weight_row(&row)[stream_tile_outputs<Rows>], const stream_span& span,
            stream_totals<Rows>& total) {
          bool takes = special_inputs || !special::scales_inputs;
          for (const weight_row& r : row)
            takes = takes &&
                    special::takes(scales_at<Format>(r, span.first),
                                   has_scales(Format) ? (span.last - span.first + 31) / 32 : 0);
          if (takes)
            stream_tile<Format, Rows>(decode, row, x, span, total);
          else
            plain_tile<Format, Rows>(row, x, span, total);
        });
  }
}

/// The same for 1..stream_rows rows.
template <weight_format Format>
void stream_unit(const linear_args& a, const linear_unit& unit, float* memory) {
  const size_t rows = unit.last_row - unit.first_row;
  if (rows == 1) return stream_outputs<Format, 1>(a, unit, memory);
  if (rows == 2) return stream_outputs<Format, 2>(a, unit, memory);
  if constexpr (stream_rows > 2) {
    if (rows == 3) return stream_outputs<Format, 3>(a, unit, memory);
    if (rows == 4) return stream_outputs<Format, 4>(a, unit, memory);
    if (rows == 5) return stream_outputs<Format, 5>(a, unit, memory);
    if (rows == 6) return stream_outputs<Format, 6>(a, unit, memory);
    if (rows == 7) return stream_outputs<Format, 7>(a, unit, memory);
    return stream_outputs<Format, 8>(a, unit, memory);
  }
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
