#pragma once

#include "actors/cache/kv_writer_config.hpp"
#include "actors/console/actor_card.hpp"
#include "actors/messages/cache.hpp"
#include "actors/remote/remote_hub.hpp"
#include "actors/serve/staging_area.hpp"
#include "runtime/net/transport.hpp"
#include "runtime/policy/kept_rings.hpp"

#include <caf/stateful_actor.hpp>

#include <map>
#include <memory>

namespace deepinfer {

struct ring_host_setup {
  ring_host_config config;
  remote_hub* hub = nullptr;            ///< outlives the host
  net::transport* transport = nullptr;  ///< outlives the host
};

/// A kv_check that follows this host.
struct ring_follower {
  kv_check_actor handle;
  uint64_t next_number = 0;
};

struct ring_host_state {
  ring_host_state() : rings(policy::kept_rings_limits{}) {}

  actor_card card;
  ring_host_setup setup;
  policy::kept_rings rings;
  std::unique_ptr<staging_area> memory;
  std::map<uint64_t, staged_sequence> places;  ///< by the number of the rings
  std::map<caf::actor_addr, ring_follower> followers;
  actor_ref self_ref;
  actor_ref owner_ref;  ///< takes LeaseRelease
  bool flush_due = false;
};

/// Keeps the newest window rings of conversations in registered memory, where engines of all nodes
/// read them one-sided. Soft state: it ends with the process.
ring_host_impl_actor::behavior_type ring_host(
    ring_host_impl_actor::stateful_pointer<ring_host_state> self, const ring_host_setup& setup);

}  // namespace deepinfer
