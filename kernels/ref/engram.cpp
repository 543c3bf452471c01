#include "kernels/api/number_formats.hpp"
#include "kernels/ref/ref.hpp"

#include <cmath>
#include <cstddef>

namespace deepinfer::kernels::ref {

void engram_rows(stream&, const engram_rows_args& a) {
  for (size_t i = 0; i < a.count; ++i)
    for (size_t c = 0; c < a.width; ++c) {
      const size_t at = static_cast<size_t>(a.id[i]) * a.width + c;
      a.out[i * a.width + c] = e4m3_value(a.table[at]) * ue8m0_value(a.scales[at / 32]);
    }
}

void engram_gate(stream&, const engram_gate_args& a) {
  const size_t d = a.width;
  for (size_t r = 0; r < a.rows; ++r) {
    if (a.is_image != nullptr && a.is_image[r] != 0) continue;
    const float* value = a.kv + (r * (a.streams + 1) + a.streams) * d;
    for (size_t k = 0; k < a.streams; ++k) {
      float* x = a.x + (r * a.streams + k) * d;
      const float* key = a.kv + (r * (a.streams + 1) + k) * d;
      double dot = 0, x2 = 0, key2 = 0;
      for (size_t c = 0; c < d; ++c) {
        dot += double{x[c]} * a.qk_weight[k * d + c] * key[c];
        x2 += double{x[c]} * x[c];
        key2 += double{key[c]} * key[c];
      }
      const double n = static_cast<double>(d);
      dot /= std::sqrt(x2 / n + a.epsilon) * std::sqrt(key2 / n + a.epsilon) * std::sqrt(n);
      const double root = std::copysign(std::sqrt(std::fmax(std::fabs(dot), 1e-6)), dot);
      const double gate = 1 / (1 + std::exp(-root));
      for (size_t c = 0; c < d; ++c)
        x[c] = rounded(static_cast<float>(x[c] + gate * value[c]), a.round);
    }
  }
}

}  // namespace deepinfer::kernels::ref
