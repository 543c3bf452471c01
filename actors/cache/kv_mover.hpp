#pragma once

#include "actors/cache/kv_backing.hpp"
#include "actors/cache/kv_mover_config.hpp"
#include "actors/cache/move_work.hpp"
#include "actors/cache/store_directory.hpp"
#include "actors/console/actor_card.hpp"
#include "actors/messages/kv_store.hpp"
#include "actors/remote/remote_hub.hpp"
#include "actors/serve/staging_area.hpp"
#include "runtime/net/transport.hpp"
#include "runtime/policy/group_moves.hpp"

#include <caf/stateful_actor.hpp>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace deepinfer {

struct kv_mover_setup {
  kv_mover_config config;
  kv_backing backing;
  uint32_t group_blocks = 0;
  remote_hub* hub = nullptr;            ///< outlives the mover
  net::transport* transport = nullptr;  ///< outlives the mover
  kv_store_impl_actor store;            ///< told that there is news for those who wait
  std::function<std::chrono::milliseconds()> wall;
  std::function<kv_io_actor()> spawn_io;
};

struct mover_tick {};
/// What a walk does next; of an earlier walk: nothing.
struct mover_step {
  uint64_t turn = 0;
};
/// Nothing is begun any more.
struct stop_moving {};

using kv_mover_actor =
    caf::typed_actor<caf::reacts_to<wire::msg<wire::Members>>,
                     caf::reacts_to<wire::msg<wire::LeaseRelease>>,
                     caf::reacts_to<mover_tick>,
                     caf::reacts_to<mover_step>,
                     caf::reacts_to<io_done>,
                     caf::reacts_to<stop_moving>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

/// The group in work: first its owners are given what they lack, then, where this store is none of
/// them, they are asked once more and the group is given away.
struct moving_group {
  enum class phase : uint8_t { copying, leaving };
  enum class stage : uint8_t { load, choose_owner, send, give_away };

  storage::block_key head;
  policy::group_owners owners;
  phase doing = phase::copying;
  stage next = stage::load;
  bool whole = true;    ///< so far all owners have all of it
  bool copied = false;  ///< something of it went somewhere
  std::vector<storage::group_block> page;
  storage::block_key after;  ///< the last block of the page before
  size_t owner = 0;          ///< of `owners.others`, the one that is served
  std::vector<size_t> left;  ///< places in the page that it is still to be sent
};

/// One way through the index of the store.
struct mover_walk {
  policy::walk_kind kind{};
  uint64_t placement = 0;
  uint64_t cursor = 0;
  bool last_page = false;
  std::deque<storage::block_key> heads;
  struct leaver {
    storage::block_key head;
    std::chrono::nanoseconds at{};
  };
  std::deque<leaver> leaving;  ///< copied whole, given away at their time
  uint64_t seen = 0, waiting = 0;
};

struct kv_mover_state {
  actor_card card;
  kv_mover_setup setup;
  actor_ref self_ref;
  kv_io_actor io;
  std::unique_ptr<staging_area> staging;
  store_directory directory{store_directory::own_node::left_out};
  std::optional<policy::group_moves> moves;

  uint64_t turn = 1;           ///< of the present walk
  uint32_t open = 0;           ///< questions and works without an answer, at most one
  std::function<void()> then;  ///< follows the work of the I/O actor
  std::optional<mover_walk> walk;
  std::optional<moving_group> group;
  using purge_target = std::pair<storage::block_key, storage::scope_id>;  ///< a store, a scope
  std::map<purge_target, std::chrono::nanoseconds> sent;                  ///< lately, when
  std::map<storage::scope_id, std::chrono::nanoseconds> purged;           ///< here, heard of when
  std::map<purge_target, std::optional<std::chrono::nanoseconds>> purges_due;  ///< asked first when
  std::set<purge_target> purges_asked;
  uint64_t last_seen = 0, last_waiting = 0;  ///< of the last walk
  bool stopped = false;
};

/// Brings stored groups to the stores that own them and makes lost copies again, beside a kv_store.
/// One group at a time, and slowly: everything else goes first. What fails stays where it is.
kv_mover_actor::behavior_type kv_mover(kv_mover_actor::stateful_pointer<kv_mover_state> self,
                                       const kv_mover_setup& setup);

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::mover_tick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::mover_step)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::stop_moving)
