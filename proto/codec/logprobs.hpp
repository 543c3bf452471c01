#pragma once

#include "proto/types/result.hpp"
#include "proto/types/token_logprobs.hpp"
#include "proto/wire/request.capnp.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Log probabilities on their way from an engine to a request.
namespace deepinfer::wire {

/// What a message must hold.
struct logprob_shape {
  size_t tokens = 0;   ///< output tokens of the message
  uint32_t asked = 0;  ///< `Sampling.logprobs`: 0, or 1 and the alternatives of each token
};

/// One row per token of the message; `asked` above 0. A row with fewer alternatives than asked for
/// is filled up with what `request.capnp` calls none.
void write_logprobs(TokenLogprobs::Builder out,
                    std::span<const token_logprobs> rows,
                    uint32_t asked);

/// Nothing when nothing was asked for, whatever came. `corrupt`: not exactly the rows asked for, an
/// id below 0, or a number that is no log probability.
[[nodiscard]] result<std::vector<token_logprobs>> read_logprobs(TokenLogprobs::Reader in,
                                                                const logprob_shape& shape);

}  // namespace deepinfer::wire
