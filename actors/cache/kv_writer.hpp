#pragma once

#include "actors/cache/kv_writer_config.hpp"
#include "actors/cache/store_directory.hpp"
#include "actors/console/actor_card.hpp"
#include "actors/messages/cache.hpp"
#include "actors/remote/remote_hub.hpp"
#include "actors/serve/staging_area.hpp"
#include "runtime/net/transport.hpp"
#include "runtime/policy/write_lanes.hpp"

#include <caf/stateful_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <vector>

namespace deepinfer {

struct kv_writer_setup {
  kv_writer_config config;
  remote_hub* hub = nullptr;            ///< outlives the writer
  net::transport* transport = nullptr;  ///< outlives the writer
  storage::writer_ref writer;           ///< id: the same for all lives of this node
  /// Shared with the engines of this node.
  std::shared_ptr<persist_budget> budget;
};

/// An order to let go of a scope, until what is on its way of it has arrived or is lost.
struct writer_purge {
  uint64_t scope = 0;
  uint64_t blocks = 0;
  caf::typed_response_promise<wire::msg<wire::KvPurged>> promise;
};

struct kv_writer_state {
  kv_writer_state() : lanes(policy::write_limits{}) {}

  actor_card card;
  kv_writer_setup setup;
  actor_ref self_ref;
  policy::write_lanes lanes;
  std::unique_ptr<staging_area> staging;
  store_directory directory;
  std::map<uint64_t, persist_blocks> jobs;
  uint64_t next_job = 1;
  uint64_t stored_bytes = 0;  ///< and what of it was told at the last tick
  uint64_t told_bytes = 0;
  std::chrono::nanoseconds told_at{};
  std::vector<caf::typed_response_promise<wire::msg<wire::Ack>>> drains;
  std::vector<writer_purge> purges;
};

/// Sends blocks of this node's engines to the stores that own their groups. Everything that goes
/// wrong drops blocks and is counted; nobody waits for it.
kv_writer_actor::behavior_type kv_writer(kv_writer_actor::stateful_pointer<kv_writer_state> self,
                                         const kv_writer_setup& setup);

}  // namespace deepinfer
