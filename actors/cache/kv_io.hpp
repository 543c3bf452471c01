#pragma once

#include "actors/console/actor_card.hpp"
#include "actors/messages/kv_store.hpp"

#include <caf/stateful_actor.hpp>

namespace deepinfer {

struct kv_io_state {
  actor_card card;
};

/// Calls a store, which blocks for as long as its device takes: spawned detached in service.
kv_io_actor::behavior_type kv_io(kv_io_actor::stateful_pointer<kv_io_state> self,
                                 const remote_hub& hub);

}  // namespace deepinfer
