#pragma once

#include "storage/catalog/catalogue_effects.hpp"
#include "storage/catalog/change_feed.hpp"
#include "storage/catalog/entry_pool.hpp"
#include "storage/catalog/expiry_lists.hpp"
#include "storage/catalog/key_table.hpp"
#include "storage/store_config.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace deepinfer::storage {

/// All blocks of a store and the rules of their lives: chains, expiry, leases' pins, scopes'
/// shares. Pure: holds no bytes, reads no clock. Not for several threads at once. Some 110 bytes a
/// block.
///
/// Kept always: the parent of an entry that is no head is there with depth one less and an expiry
/// that is not earlier and classes that are not fewer; committed entries have committed parents;
/// entries without children and pins are the only ones removed.
class catalogue {
public:
  static constexpr uint32_t none = key_table::none;
  /// In walks over all entries: how long before its turn something is fetched into the cache.
  static constexpr uint32_t ahead = 16;

  struct entry {
    block_key key;
    uint64_t checksum = 0;
    uint64_t content_digest = 0;
    int64_t expiry_ms = 0;
    uint32_t parent = none, first_child = none;
    uint32_t next_sibling = none, previous_sibling = none;
    uint32_t next_due = none, previous_due = none;
    uint32_t segment = 0, offset_units = 0, length = 0;
    uint32_t scope = 0, writer = 0;  // numbers of the tables below
    uint32_t created_s = 0, accessed_s = 0;
    uint32_t depth = 0;
    uint16_t pins = 0;
    block_state state = block_state::reserved;  // reserved: the number is free
    class_mask classes = 0;
  };

  explicit catalogue(const store_config& config);

  // ---- opening
  /// A record of an earlier life, in any order (that of the keys is the fastest), each key once.
  void load(const block_record& record);
  /// Links all loaded ones; those without a committed parent or with a false one are dropped.
  catalogue_effects finish_loading();

  // ---- looking
  [[nodiscard]] uint32_t find(const block_key& key) const;
  [[nodiscard]] const entry& at(uint32_t id) const { return entries_[id]; }
  [[nodiscard]] bool is_committed(uint32_t id) const {
    return id != none && entries_[id].state == block_state::committed;
  }
  /// How many leading keys are committed, by galloping (KV-10).
  [[nodiscard]] uint32_t committed_prefix(std::span<const block_key> keys,
                                          uint32_t first_depth) const;
  /// A block at this depth has no parent here.
  [[nodiscard]] bool is_head(uint32_t depth) const {
    return depth == 0 || (config_.group_blocks != 0 && depth % config_.group_blocks == 0);
  }
  /// `parent` is committed here, as that of a block at `depth` must be.
  [[nodiscard]] bool is_parent(uint32_t parent, uint32_t depth) const {
    return is_committed(parent) && entries_[parent].depth + 1 == depth;
  }
  [[nodiscard]] block_record record_of(uint32_t id) const;
  [[nodiscard]] scope_id scope_of(uint32_t id) const { return scopes_[entries_[id].scope].id; }
  [[nodiscard]] snapshot_page snapshot(uint64_t cursor, size_t limit) const;
  /// Numbers of entries are below this one.
  [[nodiscard]] uint32_t end() const { return entries_.end(); }
  /// The first committed entry with a number at or above `from`; `none` at the end.
  [[nodiscard]] uint32_t next_committed(uint32_t from) const;
  /// All committed entries whose bytes lie in a segment, in the order of their offsets.
  [[nodiscard]] std::vector<uint32_t> entries_in(uint32_t segment) const;
  void forget_segment(uint32_t segment) { members_.erase(segment); }

  // ---- changing
  /// A new block under a committed parent (or a root). Raises ancestors to its expiry and classes.
  /// A record with an expiry ends then, if that is earlier than a whole life.
  uint32_t add(const block_record& record,
               traffic_class use,
               cluster_time now,
               catalogue_effects& effects);
  /// Refreshes an entry and its ancestors, coarsely.
  void touch(uint32_t id, traffic_class use, cluster_time now, catalogue_effects& effects);
  /// It and its ancestors live as long as a copy elsewhere, or a whole life if that is shorter.
  void prolong(uint32_t id,
               cluster_time expiry,
               traffic_class use,
               cluster_time now,
               catalogue_effects& effects);
  /// Removes an entry that has neither children nor pins. False: it has.
  [[nodiscard]] bool drop(uint32_t id, catalogue_effects& effects);
  /// Keeps an entry, and so its ancestors, until `unpin`. False: it has all the pins it can have.
  [[nodiscard]] bool pin(uint32_t id) {
    if (entries_[id].pins == UINT16_MAX) return false;
    ++entries_[id].pins;
    return true;
  }
  /// Also removes what waited for this pin.
  void unpin(uint32_t id, catalogue_effects& effects);
  void move(uint32_t id, const block_location& to, catalogue_effects& effects);
  /// Never offers an entry or its descendants again; removes those that are not pinned.
  uint64_t doom(uint32_t id, catalogue_effects& effects);
  /// Dooms a scope's entries, leaves first, from number `from` on, about `most` of them; looks at a
  /// few times as many places. Shows each, and those that were doomed before. Returns where to go
  /// on, `none` at the end. The rules hold in between.
  using dooming = std::function<void(const entry&)>;
  uint32_t doom_some(scope_id scope,
                     uint32_t from,
                     const dooming& each,
                     uint64_t most,
                     catalogue_effects& effects);
  /// Removes what is due at `now`, at most `budget`.
  uint64_t expire(cluster_time now, uint64_t budget, catalogue_effects& effects);
  /// Removes blocks until `wanted_bytes` are freed or `budget` is used up: earliest expiry first,
  /// of scopes over their quota, then used by agents only, then the rest (KV-16).
  uint64_t evict(uint64_t wanted_bytes,
                 uint64_t budget,
                 cluster_time now,
                 catalogue_effects& effects);

  // ---- shares of scopes
  void set_quota(scope_id scope, uint64_t bytes);
  [[nodiscard]] bool fits_quota(scope_id scope, uint64_t bytes);
  void charge(scope_id scope, int64_t bytes);
  [[nodiscard]] uint64_t scope_bytes(scope_id scope);

  // ---- counting
  [[nodiscard]] uint64_t committed() const { return committed_; }
  [[nodiscard]] uint64_t doomed() const { return doomed_; }
  [[nodiscard]] uint64_t live_bytes() const { return live_bytes_; }
  [[nodiscard]] size_t scopes() const { return scopes_.size(); }
  [[nodiscard]] uint64_t evicted_below_floor() const { return evicted_below_floor_; }
  [[nodiscard]] uint64_t youngest_eviction_ms() const { return youngest_eviction_ms_; }
  [[nodiscard]] uint64_t last_eviction_ms() const { return last_eviction_ms_; }
  [[nodiscard]] size_t memory_bytes() const;
  [[nodiscard]] change_feed& feed() { return feed_; }
  [[nodiscard]] const change_feed& feed() const { return feed_; }
  /// Every rule above, the slow way; what is wrong, or nothing.
  [[nodiscard]] std::optional<std::string> broken_rule() const;

private:
  struct scope_share {
    scope_id id{};
    uint64_t bytes = 0;
    std::optional<uint64_t> quota;
  };

  [[nodiscard]] auto key_at() const {
    return [this](uint32_t id) -> const block_key& { return entries_[id].key; };
  }
  uint32_t scope_number(scope_id scope);
  uint32_t writer_number(const writer_ref& writer);
  [[nodiscard]] uint64_t quota_of(const scope_share& share) const;
  [[nodiscard]] int64_t end_of_life(traffic_class use, cluster_time now) const;
  uint32_t make_entry(const block_record& record);
  void link(uint32_t id, uint32_t parent);
  void unlink(uint32_t id);
  void raise(uint32_t id,
             int64_t expiry_ms,
             class_mask classes,
             uint32_t accessed_s,
             catalogue_effects& effects);
  void announce(change_kind kind, uint32_t id);
  void remove(uint32_t id, catalogue_effects& effects);
  template <class Rules>
  void remove_tree(uint32_t id, Rules& rules, catalogue_effects& effects);
  template <class Rules>
  void remove_due(expiry_lists& lists, Rules& rules, catalogue_effects& effects);
  void mark_doomed(uint32_t id, catalogue_effects& effects);
  [[nodiscard]] uint32_t committed_among(uint32_t sibling) const;
  bool doom_from_leaves(uint32_t root,
                        const dooming& each,
                        uint64_t& left,
                        catalogue_effects& effects);
  void note_eviction(const entry& e, cluster_time now);
  [[nodiscard]] expiry_lists& lists_of(const entry& e) {
    return e.classes == mask_of(traffic_class::agent) ? agent_due_ : chat_due_;
  }

  store_config config_;
  entry_pool<entry> entries_;
  key_table table_;
  expiry_lists agent_due_, chat_due_;
  change_feed feed_;
  std::vector<scope_share> scopes_;
  std::unordered_map<uint64_t, uint32_t> scope_numbers_;
  std::vector<writer_ref> writers_;
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> writer_numbers_;
  std::unordered_map<uint32_t, block_key> head_parents_;  // heads: the key of what is in front
  std::unordered_map<uint32_t, std::vector<uint32_t>> members_;  // segment -> entries, some gone
  std::vector<block_key, large_memory<block_key>> parents_to_link_;  // while loading: by number
  uint64_t committed_ = 0, doomed_ = 0, live_bytes_ = 0;
  uint64_t evicted_below_floor_ = 0, youngest_eviction_ms_ = UINT64_MAX;
  uint64_t last_eviction_ms_ = UINT64_MAX;
};

/// Bytes a block takes in a segment: its own, a footer, up to whole units.
inline constexpr uint32_t footer_bytes = 64;
[[nodiscard]] constexpr uint64_t stride_of(uint32_t length) {
  return (uint64_t{length} + footer_bytes + location_unit - 1) / location_unit * location_unit;
}

}  // namespace deepinfer::storage
