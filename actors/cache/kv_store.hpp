#pragma once

#include "actors/cache/kv_backing.hpp"
#include "actors/cache/put_work.hpp"
#include "actors/cache/read_work.hpp"
#include "actors/console/actor_card.hpp"
#include "actors/messages/kv_store.hpp"
#include "actors/remote/remote_hub.hpp"
#include "actors/serve/staging_area.hpp"
#include "runtime/net/transport.hpp"

#include <caf/response_promise.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace deepinfer {

struct kv_store_setup {
  kv_store_config config;
  kv_backing backing;
  remote_hub* hub = nullptr;                        ///< outlives the store
  net::transport* transport = nullptr;              ///< outlives the store
  std::function<std::chrono::milliseconds()> wall;  ///< the cluster's clock, since 1970
  /// Only the node knows how: with threads of their own, or simulated.
  std::function<kv_io_actor()> spawn_io;
};

/// A write from its message to its answer. The work belongs to an I/O actor while one has it.
struct open_put {
  std::shared_ptr<put_work> work;
  caf::typed_response_promise<wire::msg<wire::KvPutDone>> promise;
  std::chrono::nanoseconds deadline{};
  uint64_t pulling_bytes = 0;  ///< counted in `kv_store_state::pulling_bytes`
};

struct open_read {
  std::shared_ptr<read_work> work;
  caf::typed_response_promise<wire::msg<wire::KvReadDone>> promise;
  uint64_t staged = 0;  ///< lease in the staging area; 0: none
};

/// An index that waits for changes.
struct change_waiter {
  storage::feed_position after;
  uint32_t limit = 0;
  caf::typed_response_promise<wire::msg<wire::KvChanges>> promise;
};

/// What waits for an I/O actor, and what follows in the store.
struct queued_work {
  std::function<void()> run;
  std::function<void()> then;
};

/// What an I/O actor does now.
struct running_work {
  kv_io_actor worker;
  std::function<void()> then;
  bool writes = false;
};

struct kv_store_state {
  actor_card card;
  kv_store_setup setup;
  actor_ref self_ref;
  std::unique_ptr<staging_area> staging;

  std::vector<kv_io_actor> idle;
  std::deque<queued_work> reads_waiting, writes_waiting;
  std::map<uint64_t, running_work> running;
  uint32_t writes_running = 0;

  uint64_t next_number = 1;  ///< of works, puts, reads and waiters
  std::map<uint64_t, open_put> puts;
  std::deque<uint64_t> waiting_for_bytes;  ///< puts that are reserved and not pulled yet
  uint64_t pulling_bytes = 0;
  std::map<uint64_t, open_read> reads;
  std::set<storage::block_key> suspected;  ///< being read again
  std::map<uint64_t, change_waiter> waiters;
  bool feed_wakes = false;     ///< a `feed_due` is on its way
  uint64_t longest_block = 0;  ///< seen by this life
  bool draining = false;
  caf::typed_response_promise<wire::msg<wire::Ack>> drained;
};

/// A shard of the shared KV cache. Never waits: what may block runs in its I/O actors.
kv_store_impl_actor::behavior_type kv_store(
    kv_store_impl_actor::stateful_pointer<kv_store_state> self, const kv_store_setup& setup);

}  // namespace deepinfer
