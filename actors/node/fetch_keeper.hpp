#pragma once

#include "actors/console/actor_card.hpp"
#include "actors/messages/membership.hpp"
#include "runtime/base/log.hpp"

#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace deepinfer {

struct keeper_tick {};
/// This node ends: its fetch process may end before it without being missed.
struct stop_keeping {};

/// Keeps the fetch process of this machine running once a store is in the cluster.
using fetch_keeper_actor =
    caf::typed_actor<caf::reacts_to<wire::msg<wire::Members>>,
                     caf::reacts_to<keeper_tick>,
                     caf::reacts_to<stop_keeping>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

/// How a fetch process ended.
struct fetch_end {
  bool came_up = false;
  bool killed = false;  ///< by a signal
  bool failed = false;  ///< by an exit status
  std::string why;
};

/// What starts and watches it; given by the process, scripted in tests.
struct keeper_setup {
  remote_hub* hub = nullptr;
  std::shared_ptr<log_sink> log;    ///< may be null
  std::function<bool()> may_start;  ///< no other node of the machine does it
  std::function<result<void>()> start;
  std::function<std::optional<fetch_end>()> ended;  ///< nothing while it runs
  /// Fetches in this process from now on; what does it then ends with the keeper.
  std::function<result<caf::actor>()> fetch_inside;
};

struct fetch_keeper_state {
  actor_card card;
  keeper_setup setup;
  bool stores = false;  ///< there is something to fetch from
  bool started = false;
  bool over = false;  ///< nothing is started any more
  bool inside = false;
  uint32_t useless_starts = 0;  ///< in a row, of processes that did not come up
  std::chrono::nanoseconds started_at{}, not_before{};
  std::chrono::milliseconds backoff{};
};

/// One that ends is started again, later each time unless it ran well. After three that did not
/// come up, by themselves, the node does without: it fetches inside. One that was killed is never
/// replaced so: what killed it, too little memory for one, would kill the node.
fetch_keeper_actor::behavior_type fetch_keeper(
    fetch_keeper_actor::stateful_pointer<fetch_keeper_state> self, const keeper_setup& setup);

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::keeper_tick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::stop_keeping)
