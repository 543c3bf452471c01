#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/lanes.hpp"

#include <algorithm>

namespace deepinfer::kernels::cpu {
namespace {

// Rows of input that stay in the first-level cache while the weights pass by.
constexpr uint32_t row_block = 16;

// A tile of Rows x Outs dot products. Each has its own lanes, so tiling changes no bit; it only
// uses every loaded vector several times.
template <size_t Rows, size_t Outs>
void tile(const linear_args& a, uint32_t row, uint32_t output) {
  f32x4 low[Rows][Outs] = {}, high[Rows][Outs] = {};
  const float* in[Rows];
  const float* weight[Outs];
  for (size_t r = 0; r < Rows; ++r) in[r] = a.in + (row + r) * size_t{a.in_stride};
  for (size_t o = 0; o < Outs; ++o) weight[o] = a.weight + (output + o) * size_t{a.in_width};
  const size_t whole = a.in_width - a.in_width % lanes;
  for (size_t k = 0; k < whole; k += lanes)
    for (size_t o = 0; o < Outs; ++o) {
      const f32x4 w_low = load4(weight[o] + k), w_high = load4(weight[o] + k + 4);
      for (size_t r = 0; r < Rows; ++r) {
        low[r][o] += load4(in[r] + k) * w_low;
        high[r][o] += load4(in[r] + k + 4) * w_high;
      }
    }
  for (size_t r = 0; r < Rows; ++r)
    for (size_t o = 0; o < Outs; ++o) {
      float sum = sum_lanes(low[r][o], high[r][o]);
      for (size_t k = whole; k < a.in_width; ++k) sum += in[r][k] * weight[o][k];
      a.out[(row + r) * size_t{a.out_stride} + output + o] = sum;
    }
}

template <size_t Outs>
void column(const linear_args& a, uint32_t first, uint32_t last, uint32_t output) {
  uint32_t row = first;
  for (; row + 2 <= last; row += 2) tile<2, Outs>(a, row, output);
  if (row < last) tile<1, Outs>(a, row, output);
}

}  // namespace

void linear(stream&, const linear_args& a) {
  for (uint32_t first = 0; first < a.rows; first += row_block) {
    const uint32_t last = std::min(a.rows, first + row_block);
    uint32_t output = 0;
    for (; output + 2 <= a.out_width; output += 2) column<2>(a, first, last, output);
    if (output < a.out_width) column<1>(a, first, last, output);
  }
}

}  // namespace deepinfer::kernels::cpu
