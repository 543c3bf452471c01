#include "runtime/model/sampler.hpp"

#include "kernels/api/portable_math.hpp"
#include "runtime/model/philox.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace deepinfer::model {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

philox_counter noise_block(const noise_place& place, uint32_t block) {
  const philox_counter counter{{static_cast<uint32_t>(place.position),
                                static_cast<uint32_t>(place.position >> 32), block,
                                static_cast<uint32_t>(place.purpose)}};
  const philox_key key{
      {static_cast<uint32_t>(place.seed), static_cast<uint32_t>(place.seed >> 32)}};
  return philox4x32_10(counter, key);
}

// Centres of 2^24 equal cells: never 0 or 1, so both logarithms below are finite.
double to_uniform(uint32_t word) {
  return (static_cast<double>(word >> 8) + 0.5) * 0x1.0p-24;
}

double gumbel(double uniform) {
  return -kernels::portable_log(-kernels::portable_log(uniform));
}

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
  const double best = logits[ranked[0]];
  std::vector<double> mass(ranked.size());
  double total = 0;
  for (size_t i = 0; i < ranked.size(); ++i) {
    mass[i] = kernels::portable_exp((logits[ranked[i]] - best) / params.temperature);
    total += mass[i];
  }
  double seen = 0;
  for (size_t i = 0; i < ranked.size(); ++i) {
    seen += mass[i];
    if (seen >= params.top_p * total) return i + 1;
  }
  return ranked.size();
}

// Gumbel-max over `kept`, whose order does not matter: ties go to the lowest id.
int32_t draw(std::span<const float> logits,
             std::span<const int32_t> kept,
             const sampling_params& params,
             uint64_t position) {
  const noise_place place{params.seed, position, noise_purpose::target};
  float best_logit = minus_infinity;
  for (const int32_t id : kept) best_logit = std::max(best_logit, logits[id]);
  int32_t chosen = -1;
  double best = 0;
  philox_counter block{};
  int64_t block_number = -1;
  for (const int32_t id : kept) {
    if (id / 4 != block_number) {
      block_number = id / 4;
      block = noise_block(place, static_cast<uint32_t>(block_number));
    }
    const double noise = gumbel(to_uniform(block.word[id % 4]));
    const double score = (double{logits[id]} - best_logit) / params.temperature + noise;
    if (chosen < 0 || score > best || (score == best && id < chosen)) {
      chosen = id;
      best = score;
    }
  }
  return chosen;
}

std::vector<int32_t> allowed_tokens(std::span<const float> logits) {
  std::vector<int32_t> ids;
  ids.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] != minus_infinity) ids.push_back(static_cast<int32_t>(i));
  return ids;
}

}  // namespace

double uniform_noise(const noise_place& place, uint32_t index) {
  return to_uniform(noise_block(place, index / 4).word[index % 4]);
}

result<void> validate(const sampling_params& params) {
  if (!std::isfinite(params.temperature) || params.temperature < 0)
    return failure{error_code::invalid_argument, "temperature must be a number >= 0"};
  if (!(params.top_p > 0 && params.top_p <= 1))
    return failure{error_code::invalid_argument, "top_p must lie in (0, 1]"};
  return {};
}

result<int32_t> choose_greedy(std::span<const float> logits) {
  int32_t chosen = -1;
  float best = minus_infinity;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == -minus_infinity)
      return failure{error_code::invalid_argument, "a logit is not a finite number"};
    if (logits[i] > best) {
      best = logits[i];
      chosen = static_cast<int32_t>(i);
    }
  }
  if (chosen < 0) return failure{error_code::invalid_argument, "no token is allowed"};
  return chosen;
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
  const auto greedy = choose_greedy(logits);
  if (!greedy || params.temperature == 0) return greedy;
  // Without filters nothing has to be ranked.
  if (params.top_k == 0 && params.top_p >= 1)
    return draw(logits, allowed_tokens(logits), params, position);
  const auto kept = kept_tokens(logits, params);
  if (!kept) return kept.error();
  return draw(logits, *kept, params, position);
}

}  // namespace deepinfer::model
