#pragma once

#include "proto/types/result.hpp"
#include "proto/types/token_logprobs.hpp"
#include "runtime/model/step_model.hpp"

#include <cstdint>
#include <span>
#include <vector>

/// Choosing a token from logits, as a pure function of (logits, parameters, position): the filters
/// and the draw of `kernels/api/sample.hpp`, with their errors.
namespace deepinfer::model {

/// Keeps the random streams of one position apart. Numbers are part of every recorded run.
enum class noise_purpose : uint32_t { target = 0, draft = 1, acceptance = 2, residual = 3 };

/// Where noise is taken: absolute position of the token being chosen.
struct noise_place {
  uint64_t seed = 0;
  uint64_t position = 0;
  noise_purpose purpose = noise_purpose::target;
};

/// Uniform in (0, 1), 24 bits, for token (or draw number) `index`.
[[nodiscard]] double uniform_noise(const noise_place& place, uint32_t index);

/// Checks ranges: temperature finite and >= 0, top_p in (0, 1], logprobs within their limit.
[[nodiscard]] result<void> validate(const sampling_params& params);

/// Highest logit; ties go to the lowest id. `invalid_argument` when there is none to choose: empty,
/// a NaN or +infinity among them, or all -infinity (-infinity alone means "forbidden").
[[nodiscard]] result<int32_t> choose_greedy(std::span<const float> logits);

/// The ids that top-k and top-p keep, best first (ties: lower id first). Never empty on success.
/// Ranks every token: for looking at a distribution, not for drawing from it.
[[nodiscard]] result<std::vector<int32_t>> kept_tokens(std::span<const float> logits,
                                                       const sampling_params& params);

/// The token for `position`; fails as `choose_greedy` and `validate` do.
[[nodiscard]] result<int32_t> choose_token(std::span<const float> logits,
                                           const sampling_params& params,
                                           uint64_t position);

/// How likely `token` and the `alternatives` best tokens (fewer where fewer are allowed) are by the
/// logits alone: temperature and filters take no part. Fails as `choose_greedy` does, and for a
/// token or a number out of range.
[[nodiscard]] result<token_logprobs> log_probabilities(std::span<const float> logits,
                                                       int32_t token,
                                                       uint32_t alternatives);

}  // namespace deepinfer::model
