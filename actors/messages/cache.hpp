#pragma once

#include "actors/messages/introspection.hpp"
#include "actors/messages/membership.hpp"
#include "proto/wire/cache.capnp.h"
#include "runtime/model/step_model.hpp"
#include "storage/block/chain_hasher.hpp"
#include "storage/block_store.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

/// The KV cache as actors: `kv_check` (gateway nodes) matches, `kv_fetch` (a process of its own on
/// each machine) brings blocks into shared memory, `kv_store` keeps them, `kv_writer` (engine
/// nodes) sends them there, `kv_sweep` (beside a store) cleans up, `ring_host` (engine nodes) keeps
/// window rings.
namespace deepinfer {

/// A shard of the cache. Never answers later than the deadline in a message.
using kv_store_actor = caf::typed_actor<
    caf::replies_to<wire::msg<wire::KvPut>>::with<wire::msg<wire::KvPutDone>>,
    caf::replies_to<wire::msg<wire::KvOpen>>::with<wire::msg<wire::KvOpened>>,
    caf::replies_to<wire::msg<wire::KvRead>>::with<wire::msg<wire::KvReadDone>>,
    caf::replies_to<wire::msg<wire::KvChangesQuery>>::with<wire::msg<wire::KvChanges>>,
    caf::replies_to<wire::msg<wire::KvSnapshotQuery>>::with<wire::msg<wire::KvSnapshotPage>>,
    caf::replies_to<wire::msg<wire::KvInfoQuery>>::with<wire::msg<wire::KvInfo>>,
    caf::replies_to<wire::msg<wire::KvHave>>::with<wire::msg<wire::KvHas>>,
    // None of the scope is offered when this is answered.
    caf::replies_to<wire::msg<wire::KvPurge>>::with<wire::msg<wire::KvPurged>>,
    caf::replies_to<wire::msg<wire::KvClockAcknowledge>>::with<wire::msg<wire::Ack>>,
    caf::reacts_to<wire::msg<wire::KvRenew>>,
    caf::reacts_to<wire::msg<wire::KvClose>>,
    caf::reacts_to<wire::msg<wire::KvReportBad>>,
    caf::reacts_to<wire::msg<wire::LeaseRelease>>,
    caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

/// Brings stored blocks into memory that engines of the same machine map. What it hands out stays
/// until `KvFetchRelease`, the asker's end, or the deadline plus the set holding time.
using kv_fetch_actor =
    caf::typed_actor<caf::replies_to<wire::msg<wire::KvFetch>>::with<wire::msg<wire::KvFetched>>,
                     caf::reacts_to<wire::msg<wire::KvFetchRelease>>,
                     caf::reacts_to<wire::msg<wire::KvFetchNow>>,
                     caf::replies_to<wire::msg<wire::KvPurge>>::with<wire::msg<wire::KvPurged>>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

/// Keeps window rings of conversations that may go on, in registered memory.
using ring_host_actor =
    caf::typed_actor<caf::replies_to<wire::msg<wire::RingPull>>::with<wire::msg<wire::RingReady>>,
                     caf::reacts_to<wire::msg<wire::RingSubscribe>>,
                     caf::reacts_to<wire::msg<wire::LeaseRelease>>,
                     caf::replies_to<wire::msg<wire::KvPurge>>::with<wire::msg<wire::KvPurged>>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

/// What a kv_writer answers to other nodes: nothing that it had of the scope is on its way to a
/// store any more.
using purgeable_actor =
    caf::typed_actor<caf::replies_to<wire::msg<wire::KvPurge>>::with<wire::msg<wire::KvPurged>>>;

/// What others tell a kv_check.
using kv_check_actor =
    caf::typed_actor<caf::reacts_to<wire::msg<wire::RingChanges>>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

// ---- inside one process -------------------------------------------------------------------------

/// Who a request's blocks count for and may be shared with.
struct cache_party {
  storage::cache_scope scope;
  storage::traffic_class traffic = storage::traffic_class::chat;
};

/// What is stored of a prompt? Answered with a `CacheHint`; an empty one (root zero) while no
/// engine's layout is known or caching is off.
struct match_prompt {
  std::shared_ptr<const std::vector<int32_t>> tokens;
  cache_party party;
};

/// Asked by requests, on the way of their first token.
using prompt_matcher_actor =
    caf::typed_actor<caf::replies_to<match_prompt>::with<wire::msg<wire::CacheHint>>>;

using kv_check_impl_actor =
    kv_check_actor::extend<caf::replies_to<match_prompt>::with<wire::msg<wire::CacheHint>>,
                           caf::reacts_to<wire::msg<wire::Members>>>;

/// Which chain a sequence belongs to; read from and written to `wire::CacheLine`.
struct cache_line {
  storage::block_key root;  ///< zero: no caching
  uint64_t layout = 0;
  uint64_t scope = 0;
  storage::traffic_class traffic = storage::traffic_class::chat;
  uint32_t group_blocks = 64;
  storage::shared_prefix shared;  ///< the first blocks, when they are everybody's
};

/// Bytes of blocks on their way from a node's engines to its kv_writer and through it (KV-21): an
/// engine takes them before it sends a block, the writer gives them back when the block is stored
/// or dropped. So the writer's mailbox is bounded too. Any thread.
class persist_budget {
public:
  explicit persist_budget(uint64_t limit_bytes) : limit_(limit_bytes) {}

  /// False: full, or no store is known; what was asked for, and all behind it, is not persisted.
  [[nodiscard]] bool take(uint64_t bytes) {
    if (!open_.load(std::memory_order_relaxed)) return false;
    uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void give(uint64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  void open(size_t stores) { open_.store(stores != 0, std::memory_order_relaxed); }
  [[nodiscard]] bool is_open() const { return open_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t used() const { return used_.load(std::memory_order_relaxed); }

private:
  uint64_t limit_;
  std::atomic<uint64_t> used_{0};
  std::atomic<bool> open_{false};
};

/// Blocks of one sequence and one group that are final (KV-18), parents first, without gaps. Their
/// bytes were taken from the budget.
struct persist_blocks {
  cache_line line;            ///< with the scope of these blocks
  uint32_t first_block = 0;   ///< depth of the first of them in its chain
  storage::block_key parent;  ///< of the first of them; the root of the chain in front of depth 0
  storage::block_key head;    ///< of the group's first block, which may be an earlier one
  std::vector<storage::block_key> keys;
  std::vector<int32_t> tokens;  ///< of these blocks
  /// Kind block; indexes follow one another, as positions in the sequence.
  std::shared_ptr<const std::vector<model::state_part>> blocks;
};

/// What was taken when this comes is stored or dropped; then answered.
struct drain_writer {};

struct cache_tick {};

/// What the owner of leased memory is told.
using lease_owner_actor = caf::typed_actor<caf::reacts_to<wire::msg<wire::LeaseRelease>>>;

/// Sends blocks to the stores that own their groups; bounded, drops the newest when full (KV-21).
using kv_writer_actor =
    caf::typed_actor<caf::reacts_to<persist_blocks>,
                     caf::replies_to<drain_writer>::with<wire::msg<wire::Ack>>,
                     caf::reacts_to<wire::msg<wire::Members>>,
                     caf::reacts_to<wire::msg<wire::LeaseRelease>>,
                     caf::replies_to<wire::msg<wire::KvPurge>>::with<wire::msg<wire::KvPurged>>,
                     caf::reacts_to<cache_tick>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

/// Rings right behind a block, as `step_model::export_rings` gave them.
struct keep_rings {
  storage::block_key key;
  /// Earlier ones of the same sequence, which nobody will ask for any more; zero: none.
  storage::block_key replaces;
  uint64_t layout = 0;
  uint64_t scope = 0;
  std::shared_ptr<const std::vector<model::state_part>> parts;
};

/// Changes have waited long enough to be told together.
struct ring_flush {};

using ring_host_impl_actor = ring_host_actor::
    extend<caf::reacts_to<keep_rings>, caf::reacts_to<ring_flush>, caf::reacts_to<cache_tick>>;

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::match_prompt)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::persist_blocks)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::drain_writer)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::cache_tick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::keep_rings)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::ring_flush)
