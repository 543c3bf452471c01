#pragma once

#include "actors/console/actor_card.hpp"
#include "actors/messages/cache.hpp"
#include "actors/remote/remote_hub.hpp"
#include "storage/index/prefix_index.hpp"

#include <caf/stateful_actor.hpp>

#include <chrono>
#include <memory>

namespace deepinfer {

struct feed_config {
  uint32_t page_blocks = 4096;  ///< of one answer: a snapshot's page, or changes
  std::chrono::milliseconds wait{2000};
  std::chrono::milliseconds answer_within{5000};
  std::chrono::milliseconds retry{500};
  std::chrono::milliseconds pause{5};
};

/// The store of the folder is this actor from now on; an empty one: nobody, until told again.
struct follow_store {
  actor_ref store;
};
/// Asks the store, if nothing else was asked since.
struct feed_again {
  uint64_t turn = 0;
};

using index_feed_actor =
    caf::typed_actor<caf::reacts_to<follow_store>,
                     caf::reacts_to<feed_again>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

struct index_feed_state {
  actor_card card;
  feed_config config;
  remote_hub* hub = nullptr;
  std::shared_ptr<storage::prefix_index> index;
  actor_ref store;
  uint64_t turn = 0;  ///< answers to earlier questions count no more
  bool in_snapshot = false;
  uint64_t cursor = 0;
};

/// Keeps the replica of one store's index: a snapshot, then changes, and a snapshot again after a
/// gap, while matches go on with what there is. One question is open at a time. The only one that
/// writes to this index.
index_feed_actor::behavior_type index_feed(
    index_feed_actor::stateful_pointer<index_feed_state> self,
    const feed_config& config,
    remote_hub* hub,
    const std::shared_ptr<storage::prefix_index>& index);

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::follow_store)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::feed_again)
