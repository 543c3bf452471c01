#include "kernels/api/number_formats.hpp"
#include "kernels/api/portable_math.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/lanes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

// What has to be known of a row's logits before one of them can be scored.
struct row_scores {
  const route_args& args;
  const float* logits;
  double most = 0;   // softmax only
  double total = 1;  // softmax only

  row_scores(const route_args& a, const float* row) : args(a), logits(row) {
    if (a.score != gate_score::softmax) return;
    most = double{*std::max_element(row, row + a.experts)} / a.temperature;
    total = 0;
    for (uint32_t e = 0; e < a.experts; ++e)
      total += portable_exp(double{row[e]} / a.temperature - most);
  }

  // In double, so that the choice is decided by the logits' own precision.
  double operator()(uint32_t expert) const {
    const double v = double{logits[expert]} / args.temperature;
    switch (args.score) {
      case gate_score::softmax:
        return portable_exp(v - most) / total;
      case gate_score::sigmoid:
        return portable_sigmoid(v);
      case gate_score::sqrt_softplus:
        break;
    }
    return std::sqrt(std::max(v, 0.0) + portable_log1p(portable_exp(-std::fabs(v))));
  }
};

constexpr uint32_t most_chosen = 64;

// Insertion into a short list, best first. Equal keys keep the lower expert, which came first.
void choose(const route_args& a,
            const row_scores& score,
            const float* bias,
            int32_t* expert,
            float* weight) {
  double best_key[most_chosen], best_score[most_chosen];
  uint32_t held = 0;
  for (uint32_t e = 0; e < a.experts; ++e) {
    const double s = score(e);
    double key = s + bias[e];
    if (std::isnan(key)) key = -std::numeric_limits<double>::infinity();
    if (held == a.chosen && !(key > best_key[held - 1])) continue;
    uint32_t at = held < a.chosen ? held++ : held - 1;
    for (; at > 0 && key > best_key[at - 1]; --at) {
      best_key[at] = best_key[at - 1];
      best_score[at] = best_score[at - 1];
      expert[at] = expert[at - 1];
    }
    best_key[at] = key;
    best_score[at] = s;
    expert[at] = static_cast<int32_t>(e);
  }
  double total = 0;
  for (uint32_t k = 0; k < a.chosen; ++k) total += best_score[k];
  const double divisor = a.normalize && a.chosen > 1 ? total + 1e-20 : 1.0;
  for (uint32_t k = 0; k < a.chosen; ++k)
    weight[k] = static_cast<float>(best_score[k] / divisor * a.scale);
}

}  // namespace

void route(stream&, const route_args& a) {
  for (size_t r = 0; r < a.rows; ++r) {
    const bool image = a.is_image != nullptr && a.is_image[r] != 0;
    choose(a, row_scores(a, a.logits + r * a.experts), image ? a.image_bias : a.bias,
           a.expert + r * a.chosen, a.weight + r * a.chosen);
  }
}

void gather_rows(stream&, const gather_rows_args& a) {
  for (size_t i = 0; i < a.rows; ++i)
    std::memcpy(a.out + i * a.width, a.in + size_t{a.index[i]} * a.width, a.width * sizeof *a.out);
}

void swiglu(stream&, const swiglu_args& a) {
  const float limit = a.limit > 0 ? a.limit : std::numeric_limits<float>::infinity();
  for (size_t r = 0; r < a.rows; ++r) {
    const float* gate = a.gate + r * a.width;
    const float* up = a.up + r * a.width;
    float* out = a.out + r * a.width;
    const float w = a.row_weight == nullptr ? 1.0f : a.row_weight[r];
    for (size_t c = 0; c < a.width; ++c) {
      const float g = gate[c] > limit ? limit : gate[c];
      const float u = up[c] > limit ? limit : (up[c] < -limit ? -limit : up[c]);
      out[c] = rounded(g / (1.0f + exp_lane(-g)) * u * w, a.round);
    }
  }
}

void combine(stream&, const combine_args& a) {
  for (size_t r = 0; r < a.rows; ++r) {
    float* out = a.out + r * a.width;
    const float* shared = a.shared + r * a.width;
    const uint32_t* place = a.place + r * a.slots;
    for (size_t c = 0; c < a.width; ++c) {
      float sum = 0;
      for (size_t s = 0; s < a.slots; ++s) sum += a.parts[size_t{place[s]} * a.width + c];
      out[c] = rounded(sum + shared[c], a.round);
    }
  }
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
