#pragma once

#include "proto/types/check.hpp"
#include "storage/catalog/large_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace deepinfer::storage {

/// Entries by number, in pieces that never move: growing copies nothing, numbers of removed entries
/// are given out again.
template <class Entry>
class entry_pool {
public:
  [[nodiscard]] uint32_t add() {
    if (!free_.empty()) {
      const uint32_t id = free_.back();
      free_.pop_back();
      (*this)[id] = Entry{};
      return id;
    }
    DEEPINFER_CHECK(end_ < UINT32_MAX);
    if (end_ % piece == 0) {
      pieces_.emplace_back();
      pieces_.back().reserve(piece);
    }
    pieces_.back().emplace_back();
    return end_++;
  }
  void remove(uint32_t id) {
    (*this)[id] = Entry{};
    free_.push_back(id);
  }

  [[nodiscard]] Entry& operator[](uint32_t id) { return pieces_[id / piece][id % piece]; }
  [[nodiscard]] const Entry& operator[](uint32_t id) const {
    return pieces_[id / piece][id % piece];
  }
  /// The entry will be read soon; any number is allowed.
  void prefetch(uint32_t id) const {
    if (id >= end_) return;
    const auto* bytes = reinterpret_cast<const std::byte*>(&(*this)[id]);
    __builtin_prefetch(bytes);
    __builtin_prefetch(bytes + sizeof(Entry) - 1);
  }
  /// Numbers are below this; some of them may be free.
  [[nodiscard]] uint32_t end() const { return end_; }
  [[nodiscard]] size_t memory_bytes() const {
    return end_ * sizeof(Entry) + free_.size() * sizeof(uint32_t);
  }

private:
  static constexpr uint32_t piece = 1 << 16;
  std::vector<std::vector<Entry, large_memory<Entry>>> pieces_;  // reserved whole, never grown
  std::deque<uint32_t> free_;  // never moved: removing the millionth entry takes no longer
  uint32_t end_ = 0;
};

}  // namespace deepinfer::storage
