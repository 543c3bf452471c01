#pragma once

#include "proto/types/result.hpp"
#include "runtime/model/step_model.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

/// Offline inference: one sequence, one process, no cluster.
namespace deepinfer::model {

struct generate_options {
  uint32_t max_tokens = 256;
  uint32_t chunk_tokens = 256;  ///< of the prompt, per step
  bool ignore_eos = false;
  sampling_params sampling;
};

enum class generate_end : uint8_t { stop, length, cancelled };

struct generated {
  std::vector<int32_t> tokens;  ///< the stop token included
  generate_end end = generate_end::length;
};

/// Continues `prompt`. `on_token` is called with each token as it is chosen; false ends the run.
/// `invalid_argument`: an empty prompt or an id outside the vocabulary; `too_large`: the prompt
/// leaves no room; `internal`: the model could not compute a token.
[[nodiscard]] result<generated> generate(step_model& model,
                                         std::span<const int32_t> prompt,
                                         const generate_options& options,
                                         const std::function<bool(int32_t)>& on_token);

}  // namespace deepinfer::model
