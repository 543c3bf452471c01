#pragma once

#include "actors/messages/introspection.hpp"
#include "actors/messages/protocol.hpp"
#include "runtime/recipe/api_error.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace deepinfer {

/// One request body to convert, render and tokenize.
struct encode_job {
  /// Weak: a client that hangs up while it waits for a codec takes its body with it.
  std::weak_ptr<const http_request> request;
  exchange_context context;
  uint64_t bytes = 0;  ///< of its body: what it adds to the codec's load
};

/// Bytes that were given to a codec and are not encoded yet. Whoever chooses a codec adds, the
/// codec takes away.
using codec_load = std::atomic<uint64_t>;

/// An error is an answer too: it goes to the client as it is.
struct encode_answer {
  std::shared_ptr<prepared_exchange> exchange;  ///< null: see `error`
  recipe::api_error error;
};

/// One of a pool per gateway process; works apart from the I/O thread, so that a prompt of a
/// million tokens delays nobody's stream.
using codec_actor =
    caf::typed_actor<caf::replies_to<encode_job>::with<encode_answer>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::encode_job)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::encode_answer)
