#pragma once

#include "storage/block/block_key.hpp"
#include "storage/catalog/large_memory.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace deepinfer::storage {

/// Which entry has a key: open addressing over 8-byte slots, each the number of an entry and 32
/// bits of its key, so that a look-up reads the entry only when it is (almost surely) the right
/// one. Keys are uniform already. In a table made for as many as come, their homes are in their
/// order: keys that come sorted fill it front to back. In one that grows they are scattered, since
/// sorted keys would pile up in its front. At most 3/4 of the slots are used.
class key_table {
public:
  static constexpr uint32_t none = UINT32_MAX;

  explicit key_table(size_t expected = 0) : factor_(expected == 0 ? scattering : 1) {
    resize(expected + expected / 2);
  }

  /// `key_at(id)` gives an entry's key.
  template <class KeyAt>
  [[nodiscard]] uint32_t find(const block_key& key, const KeyAt& key_at) const {
    const uint32_t tag = tag_of(key);
    for (size_t at = home(key);; at = next(at)) {
      const slot& s = slots_[at];
      if (s.id == none) return none;
      if (s.tag == tag && key_at(s.id) == key) return s.id;
    }
  }

  /// The key must not be there.
  template <class KeyAt>
  void insert(const block_key& key, uint32_t id, const KeyAt& key_at) {
    if (must_grow(1)) *this = grown(key_at);
    const size_t slots = place(key, id);
    ++size_;
    // Sorted keys, and many more to come than this table was made for.
    if (slots > crowd && factor_ != scattering) *this = scattered(slots_.size(), key_at);
  }

  /// The key must be there. Closes the hole, so that no look-up meets a dead slot.
  template <class KeyAt>
  void erase(const block_key& key, const KeyAt& key_at) {
    const uint32_t tag = tag_of(key);
    size_t hole = home(key);
    while (!(slots_[hole].tag == tag && key_at(slots_[hole].id) == key)) hole = next(hole);
    for (size_t at = next(hole); slots_[at].id != none; at = next(at)) {
      const size_t wanted = home(key_at(slots_[at].id));
      // move it if its home is not between the hole and here
      if (((at - wanted) & mask()) >= ((at - hole) & mask())) {
        slots_[hole] = slots_[at];
        hole = at;
      }
    }
    slots_[hole] = {};
    --size_;
  }

  /// Whether `more` insertions would make the table grow, which touches every slot.
  [[nodiscard]] bool must_grow(size_t more) const { return (size_ + more) * 4 > slots_.size() * 3; }
  /// A copy with room for twice as many: whoever holds a lock for readers makes it outside.
  template <class KeyAt>
  [[nodiscard]] key_table grown(const KeyAt& key_at) const {
    return scattered(slots_.size() * 2, key_at);
  }

  /// A look-up of this key will come soon.
  void prefetch(const block_key& key) const { __builtin_prefetch(&slots_[home(key)]); }
  /// After `prefetch`, before `find`: the entry that the look-up will most likely read.
  [[nodiscard]] uint32_t guess(const block_key& key) const { return slots_[home(key)].id; }

  /// Slots that looking this key up may read: the cost of a crowd.
  [[nodiscard]] size_t reach(const block_key& key) const {
    size_t slots = 1;
    for (size_t at = home(key); slots_[at].id != none; at = next(at)) ++slots;
    return slots;
  }

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] size_t memory_bytes() const { return slots_.capacity() * sizeof(slot); }

private:
  /// 2^64 / golden ratio: neighbours go far apart.
  static constexpr uint64_t scattering = 0x9e3779b97f4a7c15u;
  /// Slots passed by an insertion that uniform homes never make it pass, at 3/4 and any size.
  static constexpr size_t crowd = 1024;

  struct slot {
    uint32_t id = none;
    uint32_t tag = 0;
  };

  [[nodiscard]] size_t mask() const { return slots_.size() - 1; }
  [[nodiscard]] size_t home(const block_key& key) const { return key.hi * factor_ >> shift_; }
  [[nodiscard]] size_t next(size_t at) const { return (at + 1) & mask(); }
  static uint32_t tag_of(const block_key& key) { return static_cast<uint32_t>(key.lo); }

  void resize(size_t wanted) {
    size_t count = 16;
    while (count < wanted) count *= 2;
    slots_.assign(count, slot{});
    shift_ = 64 - std::countr_zero(count);
  }
  size_t place(const block_key& key, uint32_t id) {
    size_t at = home(key), slots = 1;
    for (; slots_[at].id != none; at = next(at)) ++slots;
    slots_[at] = {id, tag_of(key)};
    return slots;
  }
  template <class KeyAt>
  [[nodiscard]] key_table scattered(size_t slots, const KeyAt& key_at) const {
    key_table made;
    made.resize(slots);
    for (const slot& s : slots_)
      if (s.id != none) made.place(key_at(s.id), s.id);
    made.size_ = size_;
    return made;
  }

  std::vector<slot, large_memory<slot>> slots_;
  size_t size_ = 0;
  uint64_t factor_;  // 1: homes are in the keys' order
  int shift_ = 0;    // a home is the highest bits of key * factor
};

}  // namespace deepinfer::storage
