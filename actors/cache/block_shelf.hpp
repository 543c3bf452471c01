#pragma once

#include "storage/arena/span_pool.hpp"
#include "storage/block/block_key.hpp"

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

namespace deepinfer {

/// Where a block lies in the arena.
struct shelf_place {
  uint64_t offset = 0;
  uint32_t length = 0;
  uint64_t checksum = 0;

  friend bool operator==(const shelf_place&, const shelf_place&) = default;
};

/// Which blocks lie in the arena and who needs them; pure. A block that nobody holds stays until
/// its room is needed, the one that was let go first goes first (KV-2).
class block_shelf {
public:
  block_shelf(uint64_t begin, uint64_t end) : pool_(begin, end) {}

  /// Room for bytes that are to be read; blocks that nobody holds make way for it.
  std::optional<uint64_t> take(uint64_t bytes);
  /// Room that was taken and is not a block's.
  void give(uint64_t offset, uint64_t bytes) { pool_.give(offset, bytes); }

  /// `span` bytes of room that was taken are this block's from now on; nobody holds it yet. False,
  /// and the room is given back, when the block is there already.
  bool put(const storage::block_key& key, const shelf_place& place, uint64_t span);
  [[nodiscard]] const shelf_place* find(const storage::block_key& key) const;
  /// Of a block that is there. It stays until as many times `drop` was called.
  void hold(const storage::block_key& key);
  void drop(const storage::block_key& key);

  /// It is offered no more: its room is given back now, or when its last holder drops it.
  void retire(const storage::block_key& key);
  /// All that are here; returns how many.
  size_t retire_all();
  [[nodiscard]] bool offers(const storage::block_key& key) const;

  /// When the stores heard last that somebody uses it.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> told(const storage::block_key& key) const;
  void set_told(const storage::block_key& key, std::chrono::nanoseconds when);

  [[nodiscard]] size_t blocks() const { return blocks_.size(); }
  [[nodiscard]] size_t idle_blocks() const { return idle_.size(); }
  [[nodiscard]] uint64_t holds() const { return holds_; }
  [[nodiscard]] uint64_t used_bytes() const { return pool_.total_bytes() - pool_.free_bytes(); }
  [[nodiscard]] uint64_t total_bytes() const { return pool_.total_bytes(); }
  [[nodiscard]] uint64_t made_way() const { return made_way_; }

private:
  struct entry {
    shelf_place place;
    uint64_t span = 0;
    uint32_t holders = 0;
    bool retired = false;
    std::chrono::nanoseconds told = std::chrono::nanoseconds::min();
    std::list<storage::block_key>::iterator idle;  // while nobody holds it
  };

  using block_map = std::unordered_map<storage::block_key, entry>;
  void erase_idle(block_map::iterator at);

  storage::span_pool pool_;
  block_map blocks_;
  std::list<storage::block_key> idle_;  // let go first, first
  uint64_t holds_ = 0;
  uint64_t made_way_ = 0;
};

}  // namespace deepinfer
