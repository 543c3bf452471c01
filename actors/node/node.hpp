#pragma once

#include "actors/console/actor_card.hpp"
#include "actors/messages/introspection.hpp"

#include <caf/stateful_actor.hpp>

#include <functional>
#include <string>
#include <vector>

namespace deepinfer {

struct node_actor_setup {
  remote_hub* hub = nullptr;
  std::string roles;  ///< for people
  std::vector<caf::actor> essential;
  /// Called once when an essential actor has ended: the process is useless without it.
  std::function<void(const failure& why)> on_loss;
};

struct node_actor_state {
  actor_card card;
  bool lost = false;
};

using node_actor = inspectable_actor;

/// Watches the actors of the supervision table (node_actors.hpp).
node_actor::behavior_type node(node_actor::stateful_pointer<node_actor_state> self,
                               const node_actor_setup& setup);

}  // namespace deepinfer
