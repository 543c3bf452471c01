#pragma once

#include "actors/cache/hit_metrics.hpp"
#include "actors/cache/kv_backing.hpp"
#include "actors/cache/put_work.hpp"
#include "actors/cache/read_work.hpp"
#include "actors/cache/store_watch.hpp"
#include "actors/console/actor_card.hpp"
#include "actors/messages/kv_store.hpp"
#include "actors/remote/remote_hub.hpp"
#include "actors/serve/staging_area.hpp"
#include "runtime/base/log.hpp"
#include "runtime/net/transport.hpp"

#include <caf/response_promise.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <array>
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
  std::shared_ptr<log_sink> log;                 ///< may be null
  std::shared_ptr<const store_metrics> metrics;  ///< may be null
};

/// A write from its message to its answer. The work belongs to an I/O actor while one has it.
struct open_put {
  std::shared_ptr<put_work> work;
  caf::typed_response_promise<wire::msg<wire::KvPutDone>> promise;
  std::chrono::nanoseconds begun{};
  std::chrono::nanoseconds deadline{};
  uint64_t pulling_bytes = 0;  ///< counted in `kv_store_state::pulling_bytes`
};

struct open_read {
  std::shared_ptr<read_work> work;
  caf::typed_response_promise<wire::msg<wire::KvReadDone>> promise;
  std::chrono::nanoseconds begun{};
  uint64_t staged = 0;  ///< lease in the staging area; 0: none
};

/// A purge from its order to its answer, part by part. An I/O actor has it while `step` runs.
struct purge_work {
  storage::scope_id scope{};
  std::vector<caf::typed_response_promise<wire::msg<wire::KvPurged>>> askers;
  uint64_t cursor = 0;
  storage::purge_totals removed;
  std::optional<failure> failed;

  void step(storage::block_store& store, const storage::clock_reading& now);
};

/// An index that waits for changes.
struct change_waiter {
  storage::feed_position after;
  uint32_t limit = 0;
  caf::typed_response_promise<wire::msg<wire::KvChanges>> promise;
};

/// What a piece of work waits for: a device that may hang, or only the index, which is memory and a
/// journal. A hung device never takes the last I/O actor from the index.
enum class work_lane : uint8_t { index, reads, writes };

/// What waits for an I/O actor. When its time is over, `late` answers the asker; if it has not
/// begun by then it is not done at all: `skipped` comes instead of `run`, `then` and `late`.
struct queued_work {
  work_lane lane = work_lane::index;
  std::function<void()> run;              ///< in the I/O actor
  std::function<void()> then = [] {};     ///< in the store, after it
  std::function<void()> late = [] {};     ///< in the store; `then` still comes
  std::function<void()> skipped = [] {};  ///< in the store
  std::chrono::nanoseconds within{0};     ///< how long the asker waits; 0: nobody does
  uint64_t number = 0;                    ///< 0: a new one
};

/// What an I/O actor does now.
struct running_work {
  kv_io_actor worker;
  std::function<void()> then, late;
  work_lane lane = work_lane::index;
  std::chrono::nanoseconds begun{};
};

struct kv_store_state {
  actor_card card;
  kv_store_setup setup;
  actor_ref self_ref;
  std::unique_ptr<staging_area> staging;

  std::vector<kv_io_actor> idle;
  std::array<std::deque<queued_work>, 3> waiting;  ///< by lane
  std::map<uint64_t, running_work> running;
  std::array<uint32_t, 3> working{};  ///< by lane

  uint64_t next_number = 1;  ///< of works, puts, reads and waiters
  std::map<uint64_t, open_put> puts;
  std::deque<uint64_t> waiting_for_bytes;  ///< puts that are reserved and not pulled yet
  uint64_t pulling_bytes = 0;
  std::map<uint64_t, open_read> reads;
  std::set<storage::block_key> suspected;  ///< being read again
  std::map<uint64_t, change_waiter> waiters;
  /// Scopes that are being purged, and who asked for it since: one more purge for all of them.
  std::map<storage::scope_id, std::vector<caf::typed_response_promise<wire::msg<wire::KvPurged>>>>
      purges;
  /// Scopes and until when blocks of them that come from other stores are refused: they left there
  /// before that store was purged.
  std::map<uint64_t, std::chrono::nanoseconds> purged;
  bool feed_wakes = false;     ///< a `feed_due` is on its way
  uint64_t longest_block = 0;  ///< seen by this life
  store_watch watch;
  uint64_t blocks_full = 0, puts_malformed = 0;  ///< refused for good
  bool draining = false;
  caf::typed_response_promise<wire::msg<wire::Ack>> drained;
};

/// A shard of the shared KV cache. Never waits: what may block runs in its I/O actors.
kv_store_impl_actor::behavior_type kv_store(
    kv_store_impl_actor::stateful_pointer<kv_store_state> self, const kv_store_setup& setup);

}  // namespace deepinfer
