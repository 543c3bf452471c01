#pragma once

#include "proto/types/check.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
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
    if (end_ % piece == 0) pieces_.push_back(std::make_unique<Entry[]>(piece));
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
  /// Numbers are below this; some of them may be free.
  [[nodiscard]] uint32_t end() const { return end_; }
  [[nodiscard]] size_t memory_bytes() const {
    return pieces_.size() * piece * sizeof(Entry) + free_.capacity() * sizeof(uint32_t);
  }

private:
  static constexpr uint32_t piece = 4096;
  std::vector<std::unique_ptr<Entry[]>> pieces_;
  std::vector<uint32_t> free_;
  uint32_t end_ = 0;
};

}  // namespace deepinfer::storage
