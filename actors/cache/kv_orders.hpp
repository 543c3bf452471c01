#pragma once

#include "actors/console/actor_card.hpp"
#include "actors/messages/cache_orders.hpp"
#include "actors/remote/remote_hub.hpp"
#include "proto/wire/cluster.capnp.h"
#include "runtime/base/log.hpp"

#include <caf/stateful_actor.hpp>

#include <memory>
#include <string_view>
#include <vector>

namespace deepinfer {

/// Somebody that an order concerns.
struct order_target {
  actor_ref ref;
  order_outcome outcome;  ///< with a problem from the start: it is known to be down
};

/// All services of the given kinds, in the order of the table. Of nodes that are gone only stores
/// count, since what they have is still there: they are listed with a problem, unless the same
/// store has come back elsewhere.
[[nodiscard]] std::vector<order_target> targets_of(wire::Members::Reader members,
                                                   const std::vector<std::string_view>& kinds);

struct kv_orders_setup {
  remote_hub* hub = nullptr;  ///< outlives the actor
  node_id node;               ///< whose member table is asked
  std::shared_ptr<log_sink> log;
};

struct kv_orders_state {
  actor_card card;
  kv_orders_setup setup;
  uint32_t open = 0;
};

/// Carries orders to the caches of the whole cluster, and tells who did what. Every order may be
/// repeated.
kv_orders_actor::behavior_type kv_orders(kv_orders_actor::stateful_pointer<kv_orders_state> self,
                                         const kv_orders_setup& setup);

}  // namespace deepinfer
