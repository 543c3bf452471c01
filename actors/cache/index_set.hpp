#pragma once

#include "actors/remote/actor_ref.hpp"
#include "runtime/policy/placement.hpp"
#include "storage/block/chain_hasher.hpp"
#include "storage/index/prefix_index.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace deepinfer {

/// How stores and their replicas are matched; not for users.
struct match_shape {
  uint32_t block_tokens = 128;
  uint32_t default_group_blocks = 64;  ///< while no store is known
  size_t max_stores = 1024;
  size_t max_blocks = storage::prefix_index::default_max_blocks;  ///< of each index
  /// After a store that has a whole group: so many places of its order are asked for another copy.
  uint32_t look_for_copies = 8;
  uint32_t max_copies = 4;  ///< told of a group
};

/// One store as its `KvInfo` describes it.
struct store_facts {
  storage::block_key id;  ///< of its folder
  uint64_t epoch = 0;     ///< of its life
  uint32_t group_blocks = 0;
  uint64_t weight = 1;  ///< for placement
  actor_ref actor;
};

/// What is stored of a prompt, cut into groups; see `wire::CacheHint`.
struct prefix_hit {
  uint32_t prompt_blocks = 0;  ///< full ones
  uint32_t hit_blocks = 0;
  std::vector<std::vector<actor_ref>> groups;  ///< of the hit; who has them, best first
  std::vector<storage::block_key> keys;        ///< at least those of the hit
};

/// Replicas of the indexes of all stores. A group of blocks lies on few stores, chosen by hash;
/// it is looked for at all of them, so that what lies where it no longer belongs is found too.
/// Used by one actor; the indexes inside are fed by others.
class index_set {
public:
  using time_point = std::chrono::nanoseconds;

  explicit index_set(const match_shape& shape = {}) : shape_(shape) {}

  enum class offered : uint8_t {
    taken,
    older_life,  ///< a newer life of this folder is offered
    too_many,    ///< stores
    useless,     ///< no group size, no id
  };
  /// A store answers, from now on under this actor. What was known of its folder before counts
  /// again at once.
  offered offer(const store_facts& store);
  /// The store behind this actor does not answer any more: nothing of it is hit. Its id, or none
  /// if another actor stands for that folder by now.
  storage::block_key withdraw(const actor_ref& actor, time_point now);
  /// Drops what was withdrawn before `since`; the ids of those stores.
  std::vector<storage::block_key> forget(time_point since);

  /// The index of a folder, to be fed; null for an unknown one.
  [[nodiscard]] std::shared_ptr<storage::prefix_index> index(const storage::block_key& id) const;

  /// The longest prefix whose groups are stored one by one; keys are made as far as they are
  /// needed. What is behind blocks that everybody shares counts only when those are stored.
  [[nodiscard]] prefix_hit match(const storage::block_key& root,
                                 std::span<const int32_t> tokens,
                                 const storage::shared_prefix& shared = {}) const;

  /// The group size of most stores that are offered; those of another one are not asked.
  [[nodiscard]] uint32_t group_blocks() const { return group_blocks_; }
  [[nodiscard]] size_t stores() const { return sites_.size(); }
  [[nodiscard]] size_t known() const { return all_.size(); }
  [[nodiscard]] storage::index_stats stats() const;  ///< of all

private:
  struct entry {
    store_facts facts;
    std::shared_ptr<storage::prefix_index> index;
    bool offered = false;
    time_point withdrawn{};
  };

  void arrange();
  [[nodiscard]] uint32_t match_group(const storage::prefix_query& query,
                                     std::vector<actor_ref>& holders) const;

  match_shape shape_;
  std::map<storage::block_key, entry> all_;
  std::vector<policy::store_site>
      sites_;                          // of those that are offered and have the usual group size
  std::vector<const entry*> entries_;  // theirs
  uint32_t group_blocks_ = shape_.default_group_blocks;
};

}  // namespace deepinfer
