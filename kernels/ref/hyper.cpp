#include "kernels/api/number_formats.hpp"
#include "kernels/ref/ref.hpp"

#include <cmath>
#include <cstddef>

namespace deepinfer::kernels::ref {
namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// C[j][k]: j is the row. Ends on columns, as the model does.
void sinkhorn(double* c, size_t n, uint32_t rounds, double epsilon) {
  const auto normalise = [&](size_t outer, size_t inner) {
    for (size_t i = 0; i < n; ++i) {
      double sum = epsilon;
      for (size_t k = 0; k < n; ++k) sum += c[i * outer + k * inner];
      for (size_t k = 0; k < n; ++k) c[i * outer + k * inner] /= sum;
    }
  };
  for (size_t j = 0; j < n; ++j) {
    double most = c[j * n], sum = 0;
    for (size_t k = 1; k < n; ++k) most = std::fmax(most, c[j * n + k]);
    for (size_t k = 0; k < n; ++k) sum += c[j * n + k] = std::exp(c[j * n + k] - most);
    for (size_t k = 0; k < n; ++k) c[j * n + k] = c[j * n + k] / sum + epsilon;
  }
  normalise(1, n);  // columns
  for (uint32_t i = 1; i < rounds; ++i) {
    normalise(n, 1);  // rows
    normalise(1, n);
  }
}

}  // namespace

void hc_mix(stream&, const hc_mix_args& a) {
  const size_t n = a.streams, width = n * a.width, count = (2 + n) * n;
  double m[(2 + max_streams) * max_streams];
  for (size_t r = 0; r < a.rows; ++r) {
    const float* v = a.x + r * width;
    double squares = 0;
    for (size_t i = 0; i < width; ++i) squares += double{v[i]} * v[i];
    const double norm = 1 / std::sqrt(squares / static_cast<double>(width) + a.norm_epsilon);
    for (size_t o = 0; o < count; ++o) {
      m[o] = double{a.product[r * count + o]} * norm *
                 a.scale[o < n       ? 0
                         : o < 2 * n ? 1
                                     : 2] +
             a.base[o];
    }
    for (size_t k = 0; k < n; ++k) {
      a.pre[r * n + k] = static_cast<float>(sigmoid(m[k]) + a.mix_epsilon);
      a.post[r * n + k] = static_cast<float>(2 * sigmoid(m[n + k]));
    }
    sinkhorn(m + 2 * n, n, a.rounds, a.mix_epsilon);
    for (size_t i = 0; i < n * n; ++i) a.comb[r * n * n + i] = static_cast<float>(m[2 * n + i]);
  }
}

void hc_collapse(stream&, const hc_collapse_args& a) {
  for (size_t r = 0; r < a.rows; ++r)
    for (size_t c = 0; c < a.width; ++c) {
      double sum = 0;
      for (size_t k = 0; k < a.streams; ++k)
        sum += (a.pre == nullptr ? 1.0 / a.streams : double{a.pre[r * a.streams + k]}) *
               a.x[(r * a.streams + k) * a.width + c];
      a.out[r * a.width + c] = rounded(static_cast<float>(sum), a.round);
    }
}

void hc_expand(stream&, const hc_expand_args& a) {
  const size_t n = a.streams;
  for (size_t r = 0; r < a.rows; ++r)
    for (size_t c = 0; c < a.width; ++c) {
      double old[max_streams];
      for (size_t j = 0; j < n; ++j) old[j] = a.x[(r * n + j) * a.width + c];
      for (size_t k = 0; k < n; ++k) {
        double sum = double{a.post[r * n + k]} * a.y[r * a.width + c];
        for (size_t j = 0; j < n; ++j) sum += double{a.comb[(r * n + j) * n + k]} * old[j];
        a.x[(r * n + k) * a.width + c] = rounded(static_cast<float>(sum), a.round);
      }
    }
}

}  // namespace deepinfer::kernels::ref
