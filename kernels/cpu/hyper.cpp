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

// The 20 rounds amplify rounding, and S^2 numbers cost nothing: in double.
void sinkhorn(double* c, size_t n, uint32_t rounds, double epsilon) {
  const auto rows = [&] {
    for (size_t j = 0; j < n; ++j) {
      double sum = epsilon;
      for (size_t k = 0; k < n; ++k) sum += c[j * n + k];
      for (size_t k = 0; k < n; ++k) c[j * n + k] /= sum;
    }
  };
  const auto columns = [&] {
    for (size_t k = 0; k < n; ++k) {
      double sum = epsilon;
      for (size_t j = 0; j < n; ++j) sum += c[j * n + k];
      for (size_t j = 0; j < n; ++j) c[j * n + k] /= sum;
    }
  };
  for (size_t j = 0; j < n; ++j) {
    double* row = c + j * n;
    const double most = *std::max_element(row, row + n);
    double sum = 0;
    for (size_t k = 0; k < n; ++k) sum += row[k] = portable_exp(row[k] - most);
    for (size_t k = 0; k < n; ++k) row[k] = row[k] / sum + epsilon;
  }
  columns();
  for (uint32_t i = 1; i < rounds; ++i) {
    rows();
    columns();
  }
}

}  // namespace

void hc_mix(stream&, const hc_mix_args& a) {
  const size_t n = a.streams, width = n * a.width, count = (2 + n) * n;
  double m[(2 + max_streams) * max_streams];
  for (size_t r = 0; r < a.rows; ++r) {
    const float* v = a.x + r * width;
    const float mean = dot(v, v, width) / static_cast<float>(width);
    const double norm = 1.0 / std::sqrt(double{mean} + a.norm_epsilon);
    for (size_t o = 0; o < count; ++o) {
      const double scale = a.scale[o < n ? 0 : (o < 2 * n ? 1 : 2)];
      m[o] = double{a.product[r * count + o]} * norm * scale + a.base[o];
    }
    for (size_t k = 0; k < n; ++k) {
      a.pre[r * n + k] = static_cast<float>(portable_sigmoid(m[k]) + a.mix_epsilon);
      a.post[r * n + k] = static_cast<float>(2 * portable_sigmoid(m[n + k]));
    }
    sinkhorn(m + 2 * n, n, a.rounds, a.mix_epsilon);
    for (size_t i = 0; i < n * n; ++i) a.comb[r * n * n + i] = static_cast<float>(m[2 * n + i]);
  }
}

void hc_collapse(stream&, const hc_collapse_args& a) {
  for (size_t r = 0; r < a.rows; ++r) {
    float* out = a.out + r * a.width;
    const float* x = a.x + r * a.streams * a.width;
    float pre[max_streams];
    for (size_t k = 0; k < a.streams; ++k)
      pre[k] = a.pre == nullptr ? 1.0f / static_cast<float>(a.streams) : a.pre[r * a.streams + k];
    for (size_t c = 0; c < a.width; ++c) {
      float sum = pre[0] * x[c];
      for (size_t k = 1; k < a.streams; ++k) sum += pre[k] * x[k * a.width + c];
      out[c] = rounded(sum, a.round);
    }
  }
}

void hc_expand(stream&, const hc_expand_args& a) {
  const size_t n = a.streams, d = a.width;
  for (size_t r = 0; r < a.rows; ++r) {
    float* x = a.x + r * n * d;
    const float* y = a.y + r * d;
    const float* post = a.post + r * n;
    const float* comb = a.comb + r * n * n;
    for (size_t c = 0; c < d; ++c) {
      float old[max_streams];
      for (size_t j = 0; j < n; ++j) old[j] = x[j * d + c];
      for (size_t k = 0; k < n; ++k) {
        float sum = post[k] * y[c];
        for (size_t j = 0; j < n; ++j) sum += comb[j * n + k] * old[j];
        x[k * d + c] = rounded(sum, a.round);
      }
    }
  }
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
