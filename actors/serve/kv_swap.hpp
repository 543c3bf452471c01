#pragma once

#include "actors/cache/fetch_locator.hpp"
#include "actors/console/actor_card.hpp"
#include "actors/messages/engine.hpp"
#include "actors/remote/remote_hub.hpp"
#include "runtime/model/swap_in.hpp"
#include "storage/block/block_key.hpp"

#include <caf/stateful_actor.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace deepinfer {

/// Blocks of a hit, taken out of shared memory and verified there: nobody else can change them.
struct own_blocks {
  std::vector<std::vector<std::byte>> bytes;
};

/// Copies and verifies what was fetched; answered with `swap_checked`.
struct swap_check {
  schedule::slot_id slot{};
  uint32_t life = 0;
  std::shared_ptr<const fetched_prefix> from;
  std::shared_ptr<const std::vector<storage::block_key>> keys;  ///< of the prompt's full blocks
  uint64_t block_bytes = 0;
};

struct swap_checked {
  schedule::slot_id slot{};
  uint32_t life = 0;
  std::shared_ptr<const own_blocks> blocks;  ///< the good ones, from the first on
  bool all_good = true;
};

/// Moves blocks into a sequence, stage by stage, while it is being computed. Told with `swap_begun`
/// when it begins: who steps before that waits for a load that has not its turn yet.
struct swap_load {
  schedule::slot_id slot{};
  uint32_t life = 0;
  uint32_t start = 0;  ///< position to compute from
  std::shared_ptr<model::swap_in> into;
  std::shared_ptr<const own_blocks> blocks;  ///< at least as many as `into` asks for
};

struct swap_begun {
  schedule::slot_id slot{};
  uint32_t life = 0;
  uint32_t start = 0;
};

using swap_sink_actor = caf::typed_actor<caf::reacts_to<swap_checked>, caf::reacts_to<swap_begun>>;

using kv_swap_actor =
    caf::typed_actor<caf::reacts_to<swap_check>,
                     caf::reacts_to<swap_load>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

struct kv_swap_state {
  actor_card card;
};

/// The third stage of a hit (KV-25), beside the engine's steps: detached in service.
///
/// Why no token is computed from unverified bytes: shared memory may change under the reader (a
/// fetch process that died, a hold that ran out), so a block is copied first and the copy is
/// verified; stages are loaded from those copies only.
kv_swap_actor::behavior_type kv_swap(kv_swap_actor::stateful_pointer<kv_swap_state> self,
                                     remote_hub* hub,
                                     const swap_sink_actor& engine);

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::swap_check)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::swap_checked)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::swap_load)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::swap_begun)
