#include "kernels/api/number_formats.hpp"
#include "kernels/ref/ref.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

namespace deepinfer::kernels::ref {
namespace {

std::vector<double> scores(const route_args& a, const float* logits) {
  std::vector<double> s(logits, logits + a.experts);
  for (double& v : s) v /= a.temperature;
  if (a.score == gate_score::softmax) {
    const double most = *std::max_element(s.begin(), s.end());
    double total = 0;
    for (double& v : s) total += v = std::exp(v - most);
    for (double& v : s) v /= total;
  } else if (a.score == gate_score::sigmoid) {
    for (double& v : s) v = 1 / (1 + std::exp(-v));
  } else {
    for (double& v : s) v = std::sqrt(std::fmax(v, 0.0) + std::log1p(std::exp(-std::fabs(v))));
  }
  return s;
}

}  // namespace

void route(stream&, const route_args& a) {
  for (size_t r = 0; r < a.rows; ++r) {
    const std::vector<double> s = scores(a, a.logits + r * a.experts);
    const float* bias = a.is_image != nullptr && a.is_image[r] != 0 ? a.image_bias : a.bias;
    const auto key = [&](int32_t e) {
      const double v = s[e] + bias[e];
      return std::isnan(v) ? -std::numeric_limits<double>::infinity() : v;
    };
    std::vector<int32_t> order(a.experts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t x, int32_t y) { return key(x) > key(y); });
    double total = 0;
    for (size_t k = 0; k < a.chosen; ++k) total += s[order[k]];
    for (size_t k = 0; k < a.chosen; ++k) {
      const double w = a.normalize && a.chosen > 1 ? s[order[k]] / (total + 1e-20) : s[order[k]];
      a.expert[r * a.chosen + k] = order[k];
      a.weight[r * a.chosen + k] = static_cast<float>(w * a.scale);
    }
  }
}

void gather_rows(stream&, const gather_rows_args& a) {
  for (size_t i = 0; i < a.rows; ++i)
    for (size_t c = 0; c < a.width; ++c)
      a.out[i * a.width + c] = a.in[size_t{a.index[i]} * a.width + c];
}

void swiglu(stream&, const swiglu_args& a) {
  for (size_t r = 0; r < a.rows; ++r)
    for (size_t c = r * a.width; c < (r + 1) * a.width; ++c) {
      double g = a.gate[c], u = a.up[c];
      if (a.limit > 0) {
        g = std::fmin(g, a.limit);
        u = std::fmin(std::fmax(u, -double{a.limit}), a.limit);
      }
      const double w = a.row_weight == nullptr ? 1 : double{a.row_weight[r]};
      a.out[c] = rounded(static_cast<float>(w * u * g / (1 + std::exp(-g))), a.round);
    }
}

void combine(stream&, const combine_args& a) {
  for (size_t r = 0; r < a.rows; ++r)
    for (size_t c = 0; c < a.width; ++c) {
      double sum = 0;
      for (size_t s = 0; s < a.slots; ++s)
        sum += a.parts[size_t{a.place[r * a.slots + s]} * a.width + c];

      a.out[r * a.width + c] =
          rounded(static_cast<float>(sum + a.shared[r * a.width + c]), a.round);
    }
}

}  // namespace deepinfer::kernels::ref
