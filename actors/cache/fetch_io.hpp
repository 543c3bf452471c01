#pragma once

#include "actors/cache/fetch_messages.hpp"
#include "actors/console/actor_card.hpp"

#include <caf/stateful_actor.hpp>

namespace deepinfer {

struct fetch_io_state {
  actor_card card;
};

/// Reads files and verifies blocks for a kv_fetch: spawned detached in service.
fetch_io_actor::behavior_type fetch_io(fetch_io_actor::stateful_pointer<fetch_io_state> self,
                                       const remote_hub& hub);

}  // namespace deepinfer
