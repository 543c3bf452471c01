#pragma once

#include "storage/block/block_key.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

/// Which window rings a ring_host keeps, and for how long (KV-32). Pure bookkeeping: the memory is
/// the caller's, named by a number that is never used twice.
namespace deepinfer::policy {

struct kept_rings_limits {
  size_t most = 16384;
  std::chrono::nanoseconds idle = std::chrono::minutes{15};
};

struct kept_ring {
  storage::block_key key;  ///< of the block in front of them
  uint64_t layout = 0;
  uint64_t scope = 0;
  uint64_t bytes = 0;
};

/// A reader's hold: `number`'s memory stays as it is until the hold ends.
struct ring_hold {
  uint64_t number = 0;
  uint64_t lease = 0;
};

struct ring_news {
  std::vector<kept_ring> added;
  std::vector<storage::block_key> removed;

  [[nodiscard]] bool empty() const { return added.empty() && removed.empty(); }
};

class kept_rings {
public:
  using time_point = std::chrono::nanoseconds;

  explicit kept_rings(const kept_rings_limits& limits) : limits_(limits) {}

  /// They are here already, in this layout: used again now.
  bool renew(const storage::block_key& key, uint64_t layout, time_point now);
  /// Takes the place of others with the same key. Over the limit the longest unused goes.
  uint64_t add(const kept_ring& ring, time_point now);
  /// For an engine of that layout; the hold ends by itself after `ttl`.
  std::optional<ring_hold> pull(const storage::block_key& key, uint64_t layout, time_point now);
  /// How long a hold lasts without `release`.
  void set_hold(std::chrono::nanoseconds ttl) { hold_ = ttl; }
  /// False: ended before.
  bool release(uint64_t lease);
  void remove(const storage::block_key& key);
  /// The longest unused that nobody holds goes; false: there is none.
  bool evict();
  /// All of a scope, offered no more from now on; returns how many.
  size_t purge(uint64_t scope);
  /// Ends holds and rings whose time is over; returns how many rings.
  size_t expire(time_point now);

  /// Numbers whose memory is free now, each told once.
  [[nodiscard]] std::vector<uint64_t> freed();
  /// What changed since the last call; a key that came and went is not told.
  [[nodiscard]] ring_news news();
  [[nodiscard]] std::vector<kept_ring> all() const;

  [[nodiscard]] size_t size() const { return by_key_.size(); }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }  ///< those that leave and are held too
  [[nodiscard]] size_t holds() const { return holds_.size(); }

private:
  struct entry {
    kept_ring what;
    uint64_t use = 0;  ///< its place in `order_`; 0: not offered any more
    time_point used{};
    uint32_t holds = 0;
  };
  struct hold {
    uint64_t number = 0;
    time_point ends{};
  };

  void touch(uint64_t number, entry& e, time_point now);
  void retire(uint64_t number);
  void free_if_unheld(uint64_t number);

  kept_rings_limits limits_;
  std::chrono::nanoseconds hold_ = std::chrono::seconds{30};
  std::map<uint64_t, entry> entries_;
  std::map<storage::block_key, uint64_t> by_key_;
  std::map<uint64_t, uint64_t> order_;  ///< use -> number, the longest unused first
  std::map<uint64_t, hold> holds_;
  std::vector<uint64_t> freed_;
  std::set<storage::block_key> changed_;
  std::set<storage::block_key> told_;  ///< keys that `news` has called added
  uint64_t bytes_ = 0;
  uint64_t next_number_ = 1, next_use_ = 1, next_lease_ = 1;
};

}  // namespace deepinfer::policy
