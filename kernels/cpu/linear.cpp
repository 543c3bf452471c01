#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/linear_panel.hpp"
#include "kernels/cpu/linear_plan.hpp"
#include "kernels/cpu/linear_rows.hpp"
#include "kernels/cpu/linear_stream.hpp"
#include "kernels/cpu/parallel.hpp"

#include <algorithm>
#include <cstddef>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

static_assert((linear_row_block * linear_columns + linear_group * linear_columns +
               linear_row_block / tile_rows * linear_outputs / tile_outputs * tile_floats) *
                  sizeof(float) <=
              scratch_minimum);
static_assert((2 * linear_stream_floats + linear_stream_outputs * stream_rows * lane_count) *
                  sizeof(float) <=
              scratch_minimum);
static_assert(linear_row_block % tile_rows == 0);

template <weight_format Format>
void run_unit(const linear_args& a, const linear_unit& unit, const worker& self) {
  const size_t rows = unit.last_row - unit.first_row;
  auto* memory = reinterpret_cast<float*>(self.scratch);
  if (rows <= stream_rows && rows * (a.weight.width + block_columns) <= linear_stream_floats)
    return stream_unit<Format>(a, unit, memory);
  for (size_t o = unit.first_output; o < unit.last_output; o += linear_outputs) {
    linear_unit piece = unit;
    piece.first_output = o;
    piece.last_output = std::min(o + linear_outputs, unit.last_output);
    panel_product<Format>(a, piece, memory).run();
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
