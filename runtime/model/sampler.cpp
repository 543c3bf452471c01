#include "runtime/model/sampler.hpp"

#include "kernels/api/logprob.hpp"
#include "kernels/api/sample.hpp"
#include "kernels/api/table.hpp"
#include "proto/types/limits.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace deepinfer::model {
namespace {

static_assert(limits::max_alternatives <= kernels::most_alternatives);

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// A strict total order: better logit first, then lower id.
struct better {
  std::span<const float> logits;
  bool operator()(int32_t a, int32_t b) const {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  }
};

// Length of the shortest prefix of `ranked` (best first) that holds `top_p` of the mass.
size_t nucleus_length(std::span<const float> logits,
                      std::span<const int32_t> ranked,
                      const sampling_params& params) {
  const auto mass = [&](size_t i) {
    return kernels::token_mass(logits[ranked[i]], logits[ranked[0]], params.temperature);
  };
  uint64_t total = 0, seen = 0;
  for (size_t i = 0; i < ranked.size(); ++i) total += mass(i);
  const uint64_t needed = kernels::nucleus_mass(params.top_p, total);
  size_t length = 0;
  do seen += mass(length++);
  while (seen < needed);
  return length;
}

std::vector<int32_t> allowed_tokens(std::span<const float> logits) {
  std::vector<int32_t> ids;
  ids.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] != minus_infinity) ids.push_back(static_cast<int32_t>(i));
  return ids;
}

// Logits lie in host memory; on one thread, since rows of a batch are sampled side by side.
const kernels::op_table& host_ops() {
  static const kernels::op_table host = [] {
    kernels::op_table table;
    kernels::register_cpu(table);
    return table;
  }();
  return host;
}

// -1 as `sample_args` says.
int32_t sampled(std::span<const float> logits, const kernels::sample_rule& rule) {
  int32_t token = -1;
  const auto width = static_cast<uint32_t>(logits.size());
  kernels::stream alone;
  host_ops().sample(alone, {&token, logits.data(), &rule, 1, width, width});
  return token;
}

failure nothing_to_choose(std::span<const float> logits) {
  for (const float v : logits)
    if (std::isnan(v) || v == -minus_infinity)
      return {error_code::invalid_argument, "a logit is not a finite number"};
  return {error_code::invalid_argument, "no token is allowed"};
}

kernels::sample_rule rule_of(const sampling_params& params, const noise_place& place) {
  return {params.temperature, params.top_p,  params.top_k, static_cast<uint32_t>(place.purpose),
          place.seed,         place.position};
}

}  // namespace

double uniform_noise(const noise_place& place, uint32_t index) {
  const kernels::philox_counter block = kernels::noise_block(rule_of({}, place), index / 4);
  return kernels::unit_noise(block.word[index % 4]);
}

result<void> validate(const sampling_params& params) {
  if (!std::isfinite(params.temperature) || params.temperature < 0)
    return failure{error_code::invalid_argument, "temperature must be a number >= 0"};
  if (!(params.top_p > 0 && params.top_p <= 1))
    return failure{error_code::invalid_argument, "top_p must lie in (0, 1]"};
  if (params.logprobs > 1 + limits::max_alternatives)
    return failure{error_code::invalid_argument, "at most " +
                                                     std::to_string(limits::max_alternatives) +
                                                     " alternatives can be told beside a token"};
  return {};
}

result<int32_t> choose_greedy(std::span<const float> logits) {
  const int32_t token = sampled(logits, {.temperature = 0, .top_p = 1});
  if (token < 0) return nothing_to_choose(logits);
  return token;
}

result<std::vector<int32_t>> kept_tokens(std::span<const float> logits,
                                         const sampling_params& params) {
  if (auto valid = validate(params); !valid) return valid.error();
  const auto greedy = choose_greedy(logits);  // also checks the logits
  if (!greedy) return greedy.error();
  if (params.temperature == 0) return std::vector<int32_t>{*greedy};
  std::vector<int32_t> ids = allowed_tokens(logits);
  const better order{logits};
  if (params.top_k != 0 && params.top_k < ids.size()) {
    std::partial_sort(ids.begin(), ids.begin() + params.top_k, ids.end(), order);
    ids.resize(params.top_k);
  } else {
    std::sort(ids.begin(), ids.end(), order);
  }
  if (params.top_p < 1) ids.resize(nucleus_length(logits, ids, params));
  return ids;
}

result<int32_t> choose_token(std::span<const float> logits,
                             const sampling_params& params,
                             uint64_t position) {
  if (auto valid = validate(params); !valid) return valid.error();
  const int32_t token =
      sampled(logits, rule_of(params, {params.seed, position, noise_purpose::target}));
  if (token < 0) return nothing_to_choose(logits);
  return token;
}

result<token_logprobs> log_probabilities(std::span<const float> logits,
                                         int32_t token,
                                         uint32_t alternatives) {
  const auto width = static_cast<uint32_t>(logits.size());
  if (alternatives > limits::max_alternatives || token < 0 || static_cast<uint32_t>(token) >= width)
    return failure{error_code::invalid_argument, "a token or number of best ones is out of range"};
  token_logprobs out;
  int32_t best[limits::max_alternatives];
  float likely[limits::max_alternatives];
  kernels::stream alone;
  host_ops().logprob(
      alone, {&out.chosen, best, likely, logits.data(), &token, 1, alternatives, width, width});
  if (std::isnan(out.chosen)) return nothing_to_choose(logits);
  for (uint32_t i = 0; i < alternatives && best[i] >= 0; ++i)
    out.best.push_back({best[i], likely[i]});
  return out;
}

}  // namespace deepinfer::model
