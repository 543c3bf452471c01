#pragma once

#include "actors/messages/caf_messages.hpp"
#include "proto/types/result.hpp"
#include "proto/wire/bench.capnp.h"

#include <caf/replies_to.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <chrono>
#include <cstddef>
#include <vector>

/// The two actors whose round trips are measured.
namespace deepinfer::bench {

/// Answers with what it got.
using echo_actor =
    caf::typed_actor<caf::replies_to<wire::msg<wire::Ping>>::with<wire::msg<wire::Ping>>,
                     caf::replies_to<wire::msg<wire::Blob>>::with<wire::msg<wire::Blob>>>;

echo_actor::behavior_type echo(echo_actor::pointer self);

/// One series of round trips, one on the way at a time.
struct trip_order {
  size_t trips = 0;
  size_t payload_bytes = 0;  ///< 0: a Ping of 64 bytes; else a Blob
};
struct trip_times {
  std::vector<double> us;  ///< each trip
  failure why;             ///< ended early if there are too few
};

/// Runs series against the echo it was made with.
using pinger_actor = caf::typed_actor<caf::replies_to<trip_order>::with<trip_times>>;

struct pinger_state {
  pinger_state() = default;  // no aggregate: CAF would try to build one from an actor
  echo_actor target;
  wire::msg<wire::Ping> ping;
  wire::msg<wire::Blob> blob;
  trip_order order;
  trip_times times;
  std::chrono::steady_clock::time_point sent_at;
  caf::typed_response_promise<trip_times> promise;
};

pinger_actor::behavior_type pinger(pinger_actor::stateful_pointer<pinger_state> self,
                                   const echo_actor& target);

}  // namespace deepinfer::bench

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::bench::trip_order)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::bench::trip_times)
