#include "kernels/api/portable_math.hpp"
#include "kernels/cpu/by_rows.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/selection.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

/// Scores in double decide, so that the choice rests on the logits' own precision. They are worked
/// out for those experts only that a score in fp32 puts within its error of the chosen.
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

  [[nodiscard]] double exact(uint32_t expert) const {
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

  // Within 1e-6 of `exact`, relative to the larger of it and 1e-3.
  [[nodiscard]] DEEPINFER_INLINE vec16 rough(vec16 logit) const {
    const vec16 v = logit * all(1.0f / args.temperature);
    if (args.score == gate_score::softmax)
      return exp(v - all(static_cast<float>(most))) * all(static_cast<float>(1 / total));
    if (args.score == gate_score::sigmoid) return sigmoid(v);
    return sqrt(max(v, all(0.0f)) + log1p(exp(all(0.0f) - abs(v))));
  }

  // log(1 + x), 0 <= x <= 1: 2 atanh(s) with s = x / (2 + x) <= 1 / 3.
  [[nodiscard]] static DEEPINFER_INLINE vec16 log1p(vec16 x) {
    const vec16 s = x / (all(2.0f) + x), s2 = s * s;
    vec16 p = all(1.0f / 13);
    constexpr float inverse[] = {1.0f / 11, 1.0f / 9, 1.0f / 7, 1.0f / 5, 1.0f / 3, 1};
    for (const float c : inverse) p = fma(p, s2, all(c));
    return all(2.0f) * s * p;
  }
};

constexpr uint32_t most_chosen = 64;

// Best first. Equal keys keep the lower expert, which came first.
struct best_experts {
  double key[most_chosen], score[most_chosen];
  int32_t expert[most_chosen];
  uint32_t held = 0;

  void offer(double new_key, double new_score, uint32_t e, uint32_t chosen) {
    if (held == chosen && !(new_key > key[held - 1])) return;
    uint32_t at = held < chosen ? held++ : held - 1;
    for (; at > 0 && new_key > key[at - 1]; --at) {
      key[at] = key[at - 1];
      score[at] = score[at - 1];
      expert[at] = expert[at - 1];
    }
    key[at] = new_key;
    score[at] = new_score;
    expert[at] = static_cast<int32_t>(e);
  }
};

// Rough keys in their order, NaN as -infinity.
void rough_keys(const row_scores& score, const float* bias, uint32_t experts, uint32_t* keys) {
  for (size_t e = 0; e < experts; e += lane_count) {
    const size_t left = experts - e;
    const vec16 key = score.rough(load_first(score.logits + e, left)) + load_first(bias + e, left);
    store_i(keys + e, ordered_bits(select(key == key, key, all(minus_infinity))));
  }
}

void choose(const worker& self, const route_args& a, size_t r) {
  const row_scores score(a, a.logits + r * a.experts);
  const bool image = a.is_image != nullptr && a.is_image[r] != 0;
  const float* bias = image ? a.image_bias : a.bias;
  auto* keys = reinterpret_cast<uint32_t*>(self.scratch);
  rough_keys(score, bias, a.experts, keys);
  // Two keys closer than this may stand in the wrong order.
  const float last = score_of(key_at_rank(keys, a.experts, a.chosen));
  // An infinity is not moved: it would become NaN, above which nothing stands.
  const float least = std::isinf(last) ? last : last - 1e-5f * std::max(1.0f, std::fabs(last));
  best_experts best;
  for (uint32_t e = 0; e < a.experts; ++e) {
    if (!(score_of(static_cast<int32_t>(keys[e])) >= least) && last > minus_infinity) continue;
    const double s = score.exact(e);
    double key = s + bias[e];
    if (std::isnan(key)) key = -std::numeric_limits<double>::infinity();
    best.offer(key, s, e, a.chosen);
  }
  double total = 0;
  for (uint32_t k = 0; k < a.chosen; ++k) total += best.score[k];
  const double divisor = a.normalize && a.chosen > 1 ? total + 1e-20 : 1.0;
  for (uint32_t k = 0; k < a.chosen; ++k) {
    a.expert[r * a.chosen + k] = best.expert[k];
    a.weight[r * a.chosen + k] = static_cast<float>(best.score[k] / divisor * a.scale);
  }
}

}  // namespace

void route(stream& queue, const route_args& a) {
  by_rows(queue, a.rows, size_t{a.experts} * 16,
          [&](const worker& self, size_t first, size_t last) {
            for (size_t r = first; r < last; ++r) choose(self, a, r);
          });
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
