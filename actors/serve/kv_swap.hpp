#pragma once

#include "actors/cache/fetch_locator.hpp"
#include "actors/cache/hit_metrics.hpp"
#include "actors/console/actor_card.hpp"
#include "actors/messages/engine.hpp"
#include "actors/remote/remote_hub.hpp"
#include "runtime/model/swap_in.hpp"
#include "storage/block/block_key.hpp"

#include <caf/stateful_actor.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace deepinfer {

/// Copies and verifies what was fetched; answered with `swap_checked`, unless dropped before.
struct swap_check {
  schedule::slot_id slot{};
  uint32_t life = 0;
  std::shared_ptr<const fetched_prefix> from;
  std::shared_ptr<const std::vector<storage::block_key>> keys;  ///< of the prompt's full blocks
  uint64_t block_bytes = 0;
};

/// The copies stay here until the engine says `swap_load` or `swap_drop`.
struct swap_checked {
  schedule::slot_id slot{};
  uint32_t life = 0;
  uint32_t blocks = 0;   ///< good ones, from the first on
  bool all_good = true;  ///< false: the next one is not the block that was stored
};

/// Moves copies into a sequence, stage by stage, while it is being computed. Told with `swap_begun`
/// when it begins: who steps before that waits for a load that has not its turn yet.
struct swap_load {
  schedule::slot_id slot{};
  uint32_t life = 0;
  uint32_t start = 0;  ///< position to compute from
  std::shared_ptr<model::swap_in> into;
};

struct swap_begun {
  schedule::slot_id slot{};
  uint32_t life = 0;
  uint32_t start = 0;
};

/// Nobody wants these blocks any more, checked or not.
struct swap_drop {
  schedule::slot_id slot{};
  uint32_t life = 0;
};

/// Goes on with the hit that is being copied.
struct swap_more {};

using swap_sink_actor = caf::typed_actor<caf::reacts_to<swap_checked>, caf::reacts_to<swap_begun>>;

using kv_swap_actor =
    caf::typed_actor<caf::reacts_to<swap_check>,
                     caf::reacts_to<swap_load>,
                     caf::reacts_to<swap_drop>,
                     caf::reacts_to<swap_more>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

struct kv_swap_config {
  remote_hub* hub = nullptr;                   ///< outlives the actor
  uint64_t copy_bytes = 0;                     ///< most bytes of copies; a longer hit is cut
  uint32_t blocks_at_once = 64;                ///< copied between two looks into the mailbox
  std::shared_ptr<const hit_metrics> metrics;  ///< may be null
};

struct kv_swap_state {
  using hit_key = std::pair<schedule::slot_id, uint32_t>;

  /// A hit whose blocks are being copied, or are.
  struct copied_hit {
    std::shared_ptr<const fetched_prefix> from;  ///< null once all are copied
    std::shared_ptr<const std::vector<storage::block_key>> keys;
    uint64_t block_bytes = 0;
    size_t wanted = 0;
    std::chrono::nanoseconds begun{};
    std::vector<std::vector<std::byte>> blocks;  ///< verified: nobody else can change them

    [[nodiscard]] uint64_t bytes() const { return wanted * block_bytes; }
  };

  actor_card card;
  kv_swap_config config;
  swap_sink_actor engine;
  std::deque<swap_check> waiting;  ///< at most as many as the engine computes at once
  std::map<hit_key, copied_hit> hits;
  std::optional<hit_key> copying;
  uint64_t copy_bytes = 0;  ///< of all hits
  uint64_t peak = 0;        ///< of copy_bytes
};

/// The third stage of a hit (KV-25), beside the engine's steps: detached in service.
///
/// Why no token is computed from unverified bytes: shared memory may change under the reader (a
/// fetch process that died, a hold that ran out), so a block is copied first and the copy is
/// verified; stages are loaded from those copies only. Copies of several hits together stay within
/// `copy_bytes`: the others wait their turn, in shared memory.
kv_swap_actor::behavior_type kv_swap(kv_swap_actor::stateful_pointer<kv_swap_state> self,
                                     const kv_swap_config& config,
                                     const swap_sink_actor& engine);

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::swap_check)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::swap_checked)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::swap_load)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::swap_begun)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::swap_drop)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::swap_more)
