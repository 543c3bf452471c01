#pragma once

#include "actors/cache/cache_config.hpp"
#include "actors/cache/index_feed.hpp"
#include "actors/cache/index_set.hpp"
#include "actors/cache/public_prompts.hpp"
#include "actors/cache/ring_table.hpp"
#include "actors/console/actor_card.hpp"
#include "actors/messages/cache.hpp"
#include "actors/remote/remote_hub.hpp"
#include "runtime/base/config.hpp"
#include "runtime/base/metrics.hpp"

#include <caf/stateful_actor.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace deepinfer {

/// Section `[kvcheck]`.
struct kv_check_config {
  feed_config feed;
  uint32_t max_stores = 1024;
  uint64_t max_blocks = uint64_t{1} << 26;
  uint32_t max_rings = 262'144;
  std::chrono::milliseconds forget_after{60'000};

  template <class V>
  void describe(V& v) {
    v.field("page_blocks", feed.page_blocks, between(1, 65536),
            "Blocks or changes that a store tells at once.");
    v.field("wait", feed.wait, between(0, 60000), "How long a store may wait for something new.");
    v.field("answer_within", feed.answer_within, between(10, 600000),
            "Longest time a store may take to answer, on top of what it may wait.");
    v.field("retry", feed.retry, between(1, 60000), "Pause before a store is asked again.");
    v.field("max_stores", max_stores, between(1, 1024), "Stores followed; others are not hit.");
    v.field("max_blocks", max_blocks, between(1024, int64_t{1} << 31),
            "Blocks known of one store, of some 60 bytes each; others are not hit.");
    v.field("max_rings", max_rings, between(1, 16777216),
            "Window rings known, of all hosts; others are not used.");
    v.field("forget_after", forget_after, between(0, 86400000),
            "How long the index of a store that is gone is kept, in case it comes back.");
  }
};

/// Of one traffic class; members may be null. What is found may prove absent, or not be worth its
/// way: what engines used of it is counted by `request_metrics`.
struct match_counters {
  counter* found_tokens = nullptr;
  counter* absent_tokens = nullptr;
  counter* found_blocks = nullptr;
  counter* absent_blocks = nullptr;
};

struct match_metrics {
  match_counters agent, chat;
  histogram* seconds = nullptr;
  std::function<std::chrono::nanoseconds()> now;  ///< never jumps; for `seconds`
};

struct kv_check_setup {
  kv_check_config config;
  cache_config cache;
  std::string model;                             ///< served name: part of each chain's root
  std::shared_ptr<const public_prompts> shared;  ///< null: nothing is everybody's
  remote_hub* hub = nullptr;
  std::shared_ptr<match_metrics> metrics;  ///< may be null
  /// Spawns the feed of a store's index, and tracks it.
  std::function<index_feed_actor(const feed_config&, const std::shared_ptr<storage::prefix_index>&)>
      spawn_feed;
};

struct check_tick {};

using kv_check_self_actor = kv_check_impl_actor::extend<caf::reacts_to<check_tick>>;

/// An actor of another node that we want something of, until it is gone.
struct checked_peer {
  actor_ref ref;
  bool asked = false;  ///< and not answered yet
  bool known = false;  ///< it has answered, or was told
};

struct match_totals {
  int64_t matches = 0, found_tokens = 0, absent_tokens = 0, found_blocks = 0, absent_blocks = 0;
};

struct kv_check_state {
  kv_check_state() : rings(ring_table::limits{}) {}

  actor_card card;
  kv_check_setup setup;
  index_set stores;
  ring_table rings;
  std::map<storage::block_key, index_feed_actor> feeds;
  using peer_key = std::pair<node_id, uint64_t>;
  std::map<peer_key, checked_peer> store_peers, ring_peers;
  uint64_t layout = 0;  ///< of most prefill engines of the model; 0: none is known
  actor_ref self_ref;
  std::array<match_totals, 2> totals;  ///< agent, chat
};

/// Matches prompts against replicas of all stores' indexes, in memory, without asking anybody
/// (KV-23). What it says is a hint; stores that are gone are not in it.
kv_check_self_actor::behavior_type kv_check(
    kv_check_self_actor::stateful_pointer<kv_check_state> self, const kv_check_setup& setup);

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::check_tick)
