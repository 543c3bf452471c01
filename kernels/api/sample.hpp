#pragma once

#include "kernels/api/philox.hpp"
#include "kernels/api/portable_math.hpp"

#include <cstdint>

/// Choosing a token from a row of logits: the same token for the same (logits, rule) everywhere.
///
/// Filters, in this order: temperature; the `top_k` best; the shortest prefix of those, best first,
/// that holds `top_p` of their mass. "Best" is the one order of `index.hpp`. A token's mass is a
/// whole number, so a sum of masses does not depend on its order.
///
/// The draw is Gumbel-max over what the filters keep: an exact categorical sample that needs no
/// running sum. The largest (logit - highest) / temperature + noise wins, in double; ties go to the
/// lower token. The noise of token v is -log(-log(u)) with u from word v mod 4 of Philox(key =
/// seed, counter = (position, v div 4, purpose)): it does not depend on which tokens survive.
namespace deepinfer::kernels {

struct sample_rule {
  float temperature;  ///< finite, >= 0; 0: the best token
  float top_p;        ///< in (0, 1]
  uint32_t top_k;     ///< 0: all
  uint32_t purpose;   ///< keeps the random streams of one position apart
  uint64_t seed;
  uint64_t position;
};

/// token[r] = -1 when there is none to choose: no logits, a NaN or +infinity among them, or
/// -infinity alone (which means "forbidden").
struct sample_args {
  int32_t* token;           // [rows]
  const float* logits;      // [rows][stride]
  const sample_rule* rule;  // [rows]
  uint32_t rows;
  uint32_t width;   // tokens, < 2^24
  uint32_t stride;  // >= width
};

/// e^((logit - highest) / temperature) in units of 2^-40.
[[nodiscard]] inline uint64_t token_mass(float logit, float highest, float temperature) {
  return static_cast<uint64_t>(portable_exp_float((logit - highest) / temperature) * 0x1p40f);
}

/// The mass that a nucleus of `top_p` of `total` needs.
[[nodiscard]] inline uint64_t nucleus_mass(float top_p, uint64_t total) {
  const double needed = double{top_p} * static_cast<double>(total);
  const auto whole = static_cast<uint64_t>(needed);
  return whole + (static_cast<double>(whole) < needed ? 1 : 0);
}

[[nodiscard]] inline philox_counter noise_block(const sample_rule& rule, uint32_t block) {
  return philox4x32_10(
      {{static_cast<uint32_t>(rule.position), static_cast<uint32_t>(rule.position >> 32), block,
        rule.purpose}},
      {{static_cast<uint32_t>(rule.seed), static_cast<uint32_t>(rule.seed >> 32)}});
}

/// Centres of 2^24 equal cells: never 0 or 1, so both logarithms of the noise are finite.
[[nodiscard]] constexpr double unit_noise(uint32_t word) {
  return (static_cast<double>(word >> 8) + 0.5) * 0x1.0p-24;
}

/// What the draw compares. At most 17.33 above the first term.
[[nodiscard]] inline double token_score(const sample_rule& rule,
                                        float logit,
                                        float highest,
                                        uint32_t token) {
  const double noise = unit_noise(noise_block(rule, token / 4).word[token % 4]);
  return (double{logit} - highest) / rule.temperature - portable_log(-portable_log(noise));
}

}  // namespace deepinfer::kernels
