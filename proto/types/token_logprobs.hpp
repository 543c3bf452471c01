#pragma once

#include <cstdint>
#include <vector>

namespace deepinfer {

struct scored_token {
  int32_t id = 0;
  float logprob = 0;  ///< natural logarithm, at most 0; -infinity: forbidden

  friend bool operator==(const scored_token&, const scored_token&) = default;
};

/// How likely one emitted token was, by the model's own distribution: before temperature and
/// filters.
struct token_logprobs {
  float chosen = 0;
  std::vector<scored_token>
      best;  ///< the most likely tokens, best first; as many as were asked for

  friend bool operator==(const token_logprobs&, const token_logprobs&) = default;
};

}  // namespace deepinfer
