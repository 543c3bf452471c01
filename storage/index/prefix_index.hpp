#pragma once

#include "storage/catalog/entry_pool.hpp"
#include "storage/catalog/key_table.hpp"
#include "storage/store_types.hpp"

#include <atomic>
#include <cstdint>
#include <shared_mutex>

namespace deepinfer::storage {

/// What an index says about a prompt: a hint that may be stale, which costs time and nothing else
/// (KV-9). The store's own `match` grants the lease.
struct index_match {
  uint32_t blocks = 0;
  uint64_t store_epoch = 0;
  cluster_time expiry{};  ///< of the last block
};

struct index_stats {
  uint64_t blocks = 0, memory_bytes = 0;
  uint64_t matches = 0, hash_collisions = 0;
  uint64_t refused = 0;  ///< new blocks that found the index full
  uint64_t changes = 0, gaps = 0, snapshots = 0;
  bool complete = false;  ///< a snapshot was taken and the changes since are known
};

/// A replica of one store's keys, for matching prompts where they arrive (the CHECK duty): some 50
/// bytes a block, no tokens but their fingerprints. Fed with a snapshot and the changes after it.
/// Matching may run in many threads beside one that feeds.
class prefix_index {
public:
  static constexpr size_t default_max_blocks = size_t{1} << 28;

  /// Blocks beyond `max_blocks` are not taken: their prompts match less than they could.
  struct capacity {
    size_t expected_blocks = 0;
    size_t max_blocks = default_max_blocks;
  };
  explicit prefix_index(size_t expected_blocks = 0) : prefix_index(capacity{expected_blocks}) {}
  explicit prefix_index(const capacity& room);

  // ---- feeding, by one thread
  /// Where to go on reading changes; a zero epoch asks for a snapshot.
  [[nodiscard]] feed_position position() const;
  /// False: there is a gap (another life, lost changes). The index keeps answering with what it
  /// has; take a snapshot.
  [[nodiscard]] bool apply(const change_batch& batch);
  /// Pages of one snapshot, from the first (cursor 0 asked) to the last.
  void begin_snapshot();
  void add_page(const snapshot_page& page);
  /// The next position to read changes from is that of the first page.
  void end_snapshot();

  // ---- matching
  /// The longest prefix: all of it, or else by galloping; its last block and that one's parent
  /// confirmed by the fingerprint of their tokens and media (KV-10).
  [[nodiscard]] index_match match(const prefix_query& query) const;
  [[nodiscard]] index_stats stats() const;

private:
  struct entry {
    block_key key;
    uint64_t content_digest = 0;
    uint32_t depth = 0;
    uint32_t expiry_s = 0;
    uint32_t round = 0;  ///< of the snapshot that named it last; 0: the number is free
  };

  [[nodiscard]] auto key_at() const {
    return [this](uint32_t id) -> const block_key& { return entries_[id].key; };
  }
  void take(const block_change& change);
  void make_room();
  void drop(uint32_t id);
  [[nodiscard]] uint32_t known_prefix(const prefix_query& query) const;
  [[nodiscard]] bool confirmed(const prefix_query& query, uint32_t index) const;

  mutable std::shared_mutex mutex_;
  entry_pool<entry> entries_;
  key_table table_;
  size_t max_blocks_;
  feed_position position_;
  feed_position snapshot_position_;
  uint32_t round_ = 1;
  bool first_page_ = false;
  bool complete_ = false;
  uint64_t changes_ = 0, gaps_ = 0, snapshots_ = 0, refused_ = 0;
  mutable std::atomic<uint64_t> matches_{0}, hash_collisions_{0};
};

}  // namespace deepinfer::storage
