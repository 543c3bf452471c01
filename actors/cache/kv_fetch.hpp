#pragma once

#include "actors/cache/fetch_core.hpp"
#include "actors/cache/fetch_messages.hpp"
#include "actors/cache/fetch_pool.hpp"
#include "actors/cache/folder_reader.hpp"
#include "actors/console/actor_card.hpp"
#include "actors/remote/remote_hub.hpp"
#include "runtime/net/transport.hpp"
#include "storage/arena/shared_memory.hpp"

#include <caf/response_promise.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace deepinfer {

struct fetch_setup {
  fetch_config config;
  /// For blocks, of an epoch of its own: engines know it by that.
  std::shared_ptr<storage::shared_memory> memory;
  remote_hub* hub = nullptr;            ///< outlives the actor
  net::transport* transport = nullptr;  ///< outlives the actor
  /// Only the node knows how: with a thread of its own, or simulated.
  std::function<fetch_io_actor()> spawn_io;
};

/// An open fetch: where its answer goes, and who is watched for it.
struct open_fetch {
  caf::typed_response_promise<wire::msg<wire::KvFetched>> promise;
  caf::actor_addr asker;
};

/// A batch between the store's answer and the verified bytes.
struct pulled_batch {
  std::vector<storage::block_key> keys;
  std::vector<fetch::block_done> done;  ///< so far; `checksum` is what the store says
  std::vector<uint64_t> offsets;        ///< in the arena
  actor_ref store;
  uint64_t staged = 0;   ///< the store's lease on the bytes that are being pulled
  size_t to_pull = 0;    ///< one-sided reads that are not over
  size_t to_verify = 0;  ///< or pulled and not verified
};

struct kv_fetch_state {
  actor_card card;
  fetch_setup setup;
  std::shared_ptr<storage::shared_memory> memory;  ///< reads that are under way hold it too
  std::shared_ptr<folder_reader> folders;
  std::optional<fetch_core> core;
  std::vector<fetch_io_actor> io;
  std::optional<fetch_pool> pool;  ///< what they do
  std::map<fetch::ticket_id, open_fetch> fetches;
  std::map<caf::actor_addr, std::set<fetch::ticket_id>> askers;
  std::map<uint64_t, pulled_batch> pulls;
  std::vector<actor_ref> stores;  ///< of the member table; orders to read name theirs themselves
  bool ticking = false;
  bool running_effects = false;
  std::chrono::nanoseconds folders_closed{};
  std::chrono::nanoseconds files_used{};  ///< when something was last being read
};

/// The policy is in `fetch_core`; this does what it says: asks stores, reads, verifies, answers.
kv_fetch_impl_actor::behavior_type kv_fetch(
    kv_fetch_impl_actor::stateful_pointer<kv_fetch_state> self, const fetch_setup& setup);

}  // namespace deepinfer
