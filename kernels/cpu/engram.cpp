#include "kernels/api/number_formats.hpp"
#include "kernels/api/portable_math.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/lanes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

// sum x y z in the eight lanes.
float triple_dot(const float* x, const float* y, const float* z, size_t n) {
  f32x4 low{}, high{};
  const size_t whole = n - n % lanes;
  for (size_t i = 0; i < whole; i += lanes) {
    low += load4(x + i) * load4(y + i) * load4(z + i);
    high += load4(x + i + 4) * load4(y + i + 4) * load4(z + i + 4);
  }
  float sum = sum_lanes(low, high);
  for (size_t i = whole; i < n; ++i) sum += x[i] * y[i] * z[i];
  return sum;
}

}  // namespace

void engram_rows(stream&, const engram_rows_args& a) {
  for (size_t i = 0; i < a.count; ++i) {
    const uint8_t* codes = a.table + static_cast<size_t>(a.id[i]) * a.width;
    const uint8_t* scales = a.scales + static_cast<size_t>(a.id[i]) * (a.width / 32);
    float* out = a.out + i * a.width;
    for (size_t c = 0; c < a.width; ++c)
      out[c] = e4m3_value(codes[c]) * ue8m0_value(scales[c / 32]);
  }
}

void engram_gate(stream&, const engram_gate_args& a) {
  const size_t d = a.width;
  const auto n = static_cast<double>(d);
  for (size_t r = 0; r < a.rows; ++r) {
    if (a.is_image != nullptr && a.is_image[r] != 0) continue;
    const float* kv = a.kv + r * (a.streams + 1) * d;
    const float* value = kv + a.streams * d;
    for (size_t k = 0; k < a.streams; ++k) {
      float* x = a.x + (r * a.streams + k) * d;
      const float* key = kv + k * d;
      const double rms_x = std::sqrt(dot(x, x, d) / n + a.epsilon);
      const double rms_key = std::sqrt(dot(key, key, d) / n + a.epsilon);
      const double raw = triple_dot(x, a.qk_weight + k * d, key, d);
      const double cosine = raw / (rms_x * rms_key * std::sqrt(n));
      const double root = std::copysign(std::sqrt(std::max(std::fabs(cosine), 1e-6)), cosine);
      const auto gate = static_cast<float>(portable_sigmoid(root));
      for (size_t c = 0; c < d; ++c) x[c] = rounded(x[c] + gate * value[c], a.round);
    }
  }
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
