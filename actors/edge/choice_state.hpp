#pragma once

#include "proto/codec/msg.hpp"
#include "proto/types/token_logprobs.hpp"
#include "proto/wire/cache.capnp.h"
#include "proto/wire/request.capnp.h"
#include "runtime/model/step_model.hpp"
#include "runtime/schedule/request_machine.hpp"

#include <chrono>
#include <cstdint>
#include <vector>

namespace deepinfer {

/// One answer of a request: a generation of its own, with its own legs. Client, deadline, prompt
/// and connection are the request's.
struct choice_state {
  uint32_t number = 0;
  request_id id;                    ///< that engines know it by
  model::sampling_params sampling;  ///< with its own seed
  schedule::request_machine machine;
  wire::msg<wire::CacheHint> hint;  ///< of the prompt and the first `hinted` outputs
  uint32_t hinted = 0;
  wire::msg<wire::SequenceReady> sequence;  ///< under lease on a prefill engine
  std::vector<int32_t> emitted;             ///< all outputs so far; a new leg gets them as input
  /// Rows of the message at hand, the first one that of output `arriving_index`: the machine says
  /// which of them are new.
  std::vector<token_logprobs> arriving;
  uint32_t arriving_index = 0;
  uint32_t undrained = 0;     ///< tokens whose bytes wait in the connection
  bool stop_matched = false;  ///< a stop string ended the answer
  bool over = false;
  std::chrono::nanoseconds last_token{};
};

}  // namespace deepinfer
