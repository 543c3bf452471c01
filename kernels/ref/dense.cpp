#include "kernels/api/number_formats.hpp"
#include "kernels/ref/ref.hpp"

#include <cmath>
#include <cstddef>
#include <vector>

namespace deepinfer::kernels::ref {

void linear(stream& s, const linear_batch_args& batch) {
  for (uint32_t i = 0; i < batch.count; ++i) {
    const linear_args& a = batch.items[i];
    const size_t width = a.weight.width;
    std::vector<float> weight(a.weight.rows * width);
    dequant(s, {weight.data(), a.weight});
    for (size_t r = 0; r < a.rows; ++r)
      for (size_t o = 0; o < a.weight.rows; ++o) {
        double sum = a.bias == nullptr ? 0 : double{a.bias[o]};
        for (size_t k = 0; k < width; ++k)
          sum += double{a.in[r * a.in_stride + k]} * weight[o * width + k];
        a.out[r * a.out_stride + o] = rounded(static_cast<float>(sum), a.round);
      }
  }
}

void rms_norm(stream&, const rms_norm_args& a) {
  for (size_t r = 0; r < a.rows; ++r) {
    const float* in = a.in + r * a.width;
    float* out = a.out + r * a.width;
    double sum = 0;
    for (size_t i = 0; i < a.width; ++i) sum += double{in[i]} * in[i];
    const double scale = 1.0 / std::sqrt(sum / a.width + a.epsilon);
    for (size_t i = 0; i < a.width; ++i)
      out[i] = rounded(static_cast<float>(in[i] * scale * a.weight[i]), a.round);
  }
}

void rope_table(stream&, const rope_table_args& a) {
  for (size_t r = 0; r < a.rows; ++r)
    for (size_t j = 0; j < a.pairs; ++j) {
      const float angle = static_cast<float>(a.position[r]) * a.frequency[j];
      a.cos[r * a.pairs + j] = static_cast<float>(std::cos(double{angle}));
      a.sin[r * a.pairs + j] = static_cast<float>(std::sin(double{angle}));
    }
}

void rope(stream&, const rope_args& a) {
  for (size_t r = 0; r < a.rows; ++r)
    for (size_t h = 0; h < a.heads; ++h) {
      float* tail = a.data + (r * a.heads + h + 1) * a.head_width - 2 * size_t{a.pairs};
      for (size_t j = 0; j < a.pairs; ++j) {
        const double c = a.cos[r * a.pairs + j];
        const double s = a.direction == turn::forward ? double{a.sin[r * a.pairs + j]}
                                                      : -double{a.sin[r * a.pairs + j]};
        const double x = tail[2 * j], y = tail[2 * j + 1];
        tail[2 * j] = rounded(static_cast<float>(x * c - y * s), a.round);
        tail[2 * j + 1] = rounded(static_cast<float>(x * s + y * c), a.round);
      }
    }
}

void pool_groups(stream&, const pool_groups_args& a) {
  for (size_t g = 0; g < a.groups; ++g)
    for (size_t c = 0; c < a.width; ++c) {
      const auto at = [&](const float* p, size_t i) {
        return double{p[(g * a.ratio + i) * a.width + c]};
      };
      double most = at(a.gate, 0);
      for (size_t i = 1; i < a.ratio; ++i) most = std::fmax(most, at(a.gate, i));
      double sum = 0, total = 0;
      for (size_t i = 0; i < a.ratio; ++i) {
        const double e = std::exp(at(a.gate, i) - most);
        total += e;
        sum += e * at(a.value, i);
      }
      a.out[g * a.width + c] = rounded(static_cast<float>(sum / total), a.round);
    }
}

void embed(stream&, const embed_args& a) {
  for (size_t r = 0; r < a.rows; ++r)
    for (size_t k = 0; k < a.streams; ++k)
      for (size_t c = 0; c < a.width; ++c)
        a.x[(r * a.streams + k) * a.width + c] =
            a.instead != nullptr && a.instead[r] != nullptr
                ? a.instead[r][c]
                : bf16_value(a.table[static_cast<size_t>(a.id[r]) * a.width + c]);
}

}  // namespace deepinfer::kernels::ref
