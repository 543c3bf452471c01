#pragma once

#include "kernels/api/sample.hpp"

#include <cstdint>

/// How likely a model finds a token: log probabilities of a row of logits, over the model's own
/// distribution. Temperature and the filters of `sample.hpp` take no part, so what they would never
/// choose has one, too.
///
///   logprob(v) = (logit(v) - highest) - log(sum of all masses)
///
/// The masses are those of `token_mass` at temperature 1: whole numbers, so the sum has no order
/// and every backend gives the same bits. A mass is cut off below 2^-40, which a vocabulary of 2^17
/// sees as at most 2^-23 of the sum; the result is good to about 1e-6.
namespace deepinfer::kernels {

/// Most of the best tokens a row may be asked for.
inline constexpr uint32_t most_alternatives = 20;

/// A row with nothing to choose (as `sample_args` has it) has NaN for its token and none of the
/// best. A forbidden token, -infinity, has -infinity and is never among the best; where fewer than
/// `keep` are allowed the rest are token -1 with -infinity.
struct logprob_args {
  float* chosen;         // [rows], of `token`
  int32_t* best;         // [rows][keep] in the one order of `index.hpp`
  float* best_logprob;   // [rows][keep]
  const float* logits;   // [rows][stride]
  const int32_t* token;  // [rows], each < width
  uint32_t rows;
  uint32_t keep;    // <= most_alternatives
  uint32_t width;   // tokens, < 2^24
  uint32_t stride;  // >= width
};

/// The last term of the formula. The best token's own mass makes `total_mass` at least 2^40.
[[nodiscard]] inline double log_of_masses(uint64_t total_mass) {
  return portable_log(static_cast<double>(total_mass) * 0x1p-40);
}

/// Never above 0.
[[nodiscard]] inline float logprob_of(float logit, float highest, double log_masses) {
  return static_cast<float>((double{logit} - highest) - log_masses);
}

}  // namespace deepinfer::kernels
