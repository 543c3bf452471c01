#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/lanes.hpp"

#include <algorithm>
#include <vector>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

// Weight rows decoded at once: they are used for every input row before the next ones.
constexpr uint32_t panel_rows = 32;

void product(stream& s, const linear_args& a, std::vector<float>& panel) {
  const uint32_t width = a.weight.width;
  panel.resize(size_t{panel_rows} * width);
  for (uint32_t first = 0; first < a.weight.rows; first += panel_rows) {
    const uint32_t count = std::min(panel_rows, a.weight.rows - first);
    dequant(s, {panel.data(), row_slice(a.weight, first, count)});
    for (size_t r = 0; r < a.rows; ++r)
      for (size_t o = 0; o < count; ++o) {
        float sum = dot(a.in + r * a.in_stride, panel.data() + o * width, width);
        if (a.bias != nullptr) sum += a.bias[first + o];
        a.out[r * a.out_stride + first + o] = rounded(sum, a.round);
      }
  }
}

}  // namespace

void linear(stream& s, const linear_batch_args& batch) {
  static thread_local std::vector<float> panel;
  for (uint32_t i = 0; i < batch.count; ++i) product(s, batch.items[i], panel);
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
