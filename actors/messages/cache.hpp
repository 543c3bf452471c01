#pragma once

#include "actors/messages/introspection.hpp"
#include "actors/messages/membership.hpp"
#include "proto/wire/cache.capnp.h"
#include "runtime/model/step_model.hpp"
#include "storage/block_store.hpp"

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
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

/// Keeps window rings of conversations that may go on, in registered memory.
using ring_host_actor =
    caf::typed_actor<caf::replies_to<wire::msg<wire::RingPull>>::with<wire::msg<wire::RingReady>>,
                     caf::reacts_to<wire::msg<wire::RingSubscribe>>,
                     caf::reacts_to<wire::msg<wire::LeaseRelease>>,
                     caf::replies_to<wire::msg<wire::KvPurge>>::with<wire::msg<wire::KvPurged>>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

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
};

/// Blocks of one sequence that are final (KV-18), parents first, without gaps.
struct persist_blocks {
  cache_line line;
  uint32_t first_block = 0;
  /// Of the whole sequence up to the last block's end: keys are made of all of them.
  std::shared_ptr<const std::vector<int32_t>> tokens;
  std::vector<model::state_part> blocks;  ///< kind block, index first_block, first_block + 1, ...
};

/// Sends blocks to the stores that own their groups; bounded, drops the newest when full (KV-21).
using kv_writer_actor =
    caf::typed_actor<caf::reacts_to<persist_blocks>,
                     caf::reacts_to<wire::msg<wire::Members>>,
                     caf::reacts_to<wire::msg<wire::LeaseRelease>>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

/// Rings right behind a block, as `step_model::export_rings` gave them.
struct keep_rings {
  storage::block_key key;
  uint64_t layout = 0;
  uint64_t scope = 0;
  std::vector<model::state_part> parts;
};

using ring_host_impl_actor = ring_host_actor::extend<caf::reacts_to<keep_rings>>;

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::match_prompt)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::persist_blocks)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::keep_rings)
