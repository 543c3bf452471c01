#pragma once

#include "proto/types/result.hpp"
#include "runtime/model/step_model.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

/// Offline inference: prompts in, tokens out, in one process and without a cluster.
///
///   auto model = make_v41_model(folder, {.draft_tokens = 5});
///   generate_prompt prompt{.tokens = tokens, .sampling = {.temperature = 1, .top_p = 0.95f}};
///   auto out = generate(**model, {&prompt, 1}, {.draft_tokens = 5}, print_token);
///
/// Tokens become text, and text tokens, in `runtime/tokenizer` and `runtime/recipe`;
/// examples/offline_inference.cpp shows the whole way.
namespace deepinfer::model {

struct generate_limits {
  static constexpr uint32_t prompts_in_flight = 64;  ///< sequences that hold state at once
  static constexpr uint32_t draft_tokens = 5;        ///< the drafter's block
};

/// One prompt of a batch. What it yields depends on nothing but itself and the model: not on the
/// other prompts, nor on how many are computed at once, nor on drafts.
struct generate_prompt {
  std::span<const int32_t> tokens;
  std::span<const image_rows> images;  ///< rows of its image tokens, ascending
  sampling_params sampling;
  uint32_t max_tokens = 256;  ///< most output tokens, at least 1
  bool ignore_eos = false;    ///< go on behind a stop token
};

struct generate_options {
  uint32_t prompts_in_flight = 8;  ///< computed together; the others wait for their turn
  uint32_t chunk_tokens = 256;     ///< of each prompt, per step
  uint32_t draft_tokens =
      0;  ///< most tokens drafted per step; the model must be loaded with as many
};

enum class generate_end : uint8_t {
  stop,       ///< a stop token, which is the last of the tokens
  length,     ///< `max_tokens`, or the model's context limit
  cancelled,  ///< the callback said so
  failed,     ///< the model could not compute the next token: its numbers were not finite
};

/// What one prompt yielded.
struct generated {
  std::vector<int32_t> tokens;
  generate_end end = generate_end::length;
  uint32_t steps = 0;     ///< behind the prompt's; each gave one token and the accepted drafts
  uint32_t drafted = 0;   ///< drafts asked for in these steps
  uint32_t accepted = 0;  ///< of these
};

/// Called with every token as soon as it is certain, in order for each prompt; `prompt` is its
/// index. False ends that prompt and no other.
using token_callback = std::function<bool(size_t prompt, int32_t token)>;

/// Continues every prompt; the answers are in the order of the prompts. Fails before anything is
/// computed, naming the prompt: `invalid_argument` for an empty prompt, an id outside the
/// vocabulary, images that are not its image tokens' or settings out of range; `too_large` for a
/// prompt that leaves no room for output.
[[nodiscard]] result<std::vector<generated>> generate(step_model& model,
                                                      std::span<const generate_prompt> prompts,
                                                      const generate_options& options,
                                                      const token_callback& on_token);

}  // namespace deepinfer::model
