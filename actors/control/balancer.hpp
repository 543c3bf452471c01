#pragma once

#include "actors/console/actor_card.hpp"
#include "actors/messages/engine.hpp"
#include "actors/messages/routing.hpp"
#include "actors/remote/remote_hub.hpp"
#include "runtime/base/config.hpp"
#include "runtime/policy/engine_table.hpp"
#include "runtime/policy/route_policy.hpp"

#include <caf/stateful_actor.hpp>

#include <map>
#include <memory>
#include <string>

namespace deepinfer {

/// Section `[balancer]`, for all roles.
struct balancer_config {
  policy::engine_table_config table;
  double decode_cost_per_sequence = 1.0;
  double decode_cost_per_context_token = 1e-3;

  template <class V>
  void describe(V& v) {
    v.field("silent_after", table.silent_after, between(100, 600000),
            "An engine without a report for so long counts as full.");
    v.field("placement_counts_for", table.placement_counts_for, between(1, 60000),
            "How long a placement of our own counts on top of the reports.");
    v.field("decode_cost_per_sequence", decode_cost_per_sequence, real_between(0, 1e6),
            "Step time of one more sequence.");
    v.field("decode_cost_per_context_token", decode_cost_per_context_token, real_between(0, 1e6),
            "Step time of one more context token.");
  }
};

struct balancer_setup {
  std::string role;  ///< "prefill" or "decode": the kind of service it routes to
  balancer_config config;
  std::shared_ptr<const policy::route_policy> policy;
  std::string model;  ///< engines of other served names are left out
  remote_hub* hub = nullptr;
  availability_sink_actor gateway;
};

struct balancer_state {
  balancer_state() : table(policy::engine_table_config{}) {}

  actor_card card;
  balancer_setup setup;
  policy::engine_table table;
  std::map<policy::engine_key, actor_ref> engines;
  actor_ref self_ref;
  uint32_t told_accepting = ~0u;
};

/// Keeps the view of all engines of one role and picks one per request.
balancer_impl_actor::behavior_type balancer(
    balancer_impl_actor::stateful_pointer<balancer_state> self, const balancer_setup& setup);

}  // namespace deepinfer
