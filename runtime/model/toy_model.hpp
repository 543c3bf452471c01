#pragma once

#include "runtime/model/step_model.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

/// A model whose whole state is a 128-bit running hash of its tokens and whose next token is a hash
/// of that. It computes nothing useful and is therefore the sharpest test of everything around a
/// model: one token lost, doubled, swapped or taken from another sequence changes all that follow,
/// and `toy_next_token` says what should have come.
namespace deepinfer::model {

/// What `import_state` does with parts whose bytes do not belong to the tokens.
enum class toy_import {
  refuse,  ///< `corrupt`, as the real model does after a digest
  absorb,  ///< take them over: the tokens that follow are wrong, which a test then sees
};

struct toy_options {
  std::string name = "toy";
  uint32_t vocabulary = 64;    ///< >= 4
  int32_t stop_token = 1;      ///< must lie in the vocabulary
  uint32_t stop_per_1000 = 0;  ///< chance that the next token is the stop token; <= 1000
  uint32_t context_limit = 8192;
  uint32_t block_bytes = 256;  ///< size of one exported block of 128 tokens; >= 16
  uint64_t weights = 0;        ///< two toys with different "weights" choose different tokens
  toy_import import = toy_import::refuse;  ///< of blocks that come behind a hit, too
  /// How long a step waits for the blocks of a hit. None: where one thread does everything, nobody
  /// could bring them meanwhile, and the item fails with `state_missing`.
  std::chrono::milliseconds swap_wait{0};
};

inline constexpr uint32_t toy_block_tokens = 128;
inline constexpr uint32_t toy_ring_tokens = 16;   ///< computed again by a bounded restore
inline constexpr uint32_t toy_exact_tokens = 72;  ///< by an exact one
/// Tokens of a prompt that no kept rings may cover: as of a model with decoder replay.
inline constexpr uint32_t toy_kept_tokens = 20;

/// `invalid_argument` when an option is out of range.
[[nodiscard]] result<std::unique_ptr<step_model>> make_toy_model(const toy_options& options);

/// The oracle: the token that follows `prefix` (prompt and output so far). With a temperature above
/// zero the seed takes part, as it would in sampling.
[[nodiscard]] int32_t toy_next_token(const toy_options& options,
                                     std::span<const int32_t> prefix,
                                     const sampling_params& params = {});

/// The oracle of log probabilities: those of `token` behind `prefix`. They belong to the prefix, as
/// a distribution does: no seed takes part.
[[nodiscard]] token_logprobs toy_logprobs(const toy_options& options,
                                          std::span<const int32_t> prefix,
                                          int32_t token,
                                          uint32_t alternatives);

}  // namespace deepinfer::model
