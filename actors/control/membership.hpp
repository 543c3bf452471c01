#pragma once

#include "actors/console/actor_card.hpp"
#include "actors/messages/membership.hpp"
#include "actors/remote/remote_hub.hpp"
#include "runtime/base/config.hpp"
#include "runtime/net/registry.hpp"
#include "runtime/net/transport.hpp"
#include "runtime/policy/membership_table.hpp"

#include <caf/stateful_actor.hpp>

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace deepinfer {

/// Section `[membership]`.
struct membership_actor_config {
  policy::membership_config table;
  std::chrono::milliseconds gossip_every{500};

  template <class V>
  void describe(V& v) {
    v.field("gossip_every", gossip_every, between(50, 60000),
            "How often nodes tell each other what they know.");
    v.field("redial_after", table.redial_after, between(50, 600000),
            "Pause between two attempts to reach an address.");
    v.field("max_members", table.max_members, between(1, 1024), "Nodes in one cluster.");
  }
};

struct membership_setup {
  membership_actor_config config;
  std::string cluster;
  policy::member_record self;
  std::vector<std::string> seeds;                          ///< `--join`
  std::vector<std::shared_ptr<net::registry>> registries;  ///< runtime directory, multicast
  remote_hub* hub = nullptr;
  net::transport* transport = nullptr;
};

struct membership_state {
  actor_card card;
  membership_setup setup;
  std::unique_ptr<policy::membership_table> table;
  std::vector<members_sink_actor> subscribers;
  std::vector<policy::service_record> services;
  std::set<std::string>
      registered;  ///< addresses that a registry named and that are not known to be gone
  uint64_t told_changes = 0;
  std::chrono::nanoseconds started{};
};

/// Who is in the cluster, as this node sees it, and who must hear of a change.
membership_impl_actor::behavior_type membership(
    membership_impl_actor::stateful_pointer<membership_state> self, const membership_setup& setup);

/// Number under which every node's membership actor is published (`remote_hub::publish`).
inline constexpr uint64_t membership_actor_number = 1;
inline constexpr uint64_t console_actor_number = 2;

}  // namespace deepinfer
