#pragma once

#include "actors/console/actor_card.hpp"
#include "actors/messages/membership.hpp"
#include "runtime/base/log.hpp"

#include <caf/stateful_actor.hpp>

#include <chrono>
#include <functional>
#include <memory>

namespace deepinfer {

struct keeper_tick {};

/// Keeps the fetch process of this machine running once a store is in the cluster.
using fetch_keeper_actor =
    caf::typed_actor<caf::reacts_to<wire::msg<wire::Members>>,
                     caf::reacts_to<keeper_tick>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

/// What starts and watches it; given by the process, scripted in tests.
struct keeper_setup {
  remote_hub* hub = nullptr;
  std::shared_ptr<log_sink> log;    ///< may be null
  std::function<bool()> may_start;  ///< no other node of the machine does it
  std::function<result<void>()> start;
  std::function<bool()> running;
};

struct fetch_keeper_state {
  actor_card card;
  keeper_setup setup;
  bool stores = false;  ///< there is something to fetch from
  bool started = false;
  std::chrono::nanoseconds started_at{}, not_before{};
  std::chrono::milliseconds backoff{};
};

fetch_keeper_actor::behavior_type fetch_keeper(
    fetch_keeper_actor::stateful_pointer<fetch_keeper_state> self, const keeper_setup& setup);

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::keeper_tick)
