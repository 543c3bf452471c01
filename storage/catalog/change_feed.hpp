#pragma once

#include "storage/store_types.hpp"

#include <algorithm>
#include <deque>

namespace deepinfer::storage {

/// The last changes of one life of a store, numbered from 1. Bounded: a reader that is too slow
/// finds a gap and takes a snapshot. A change is told after it was published, which its store does
/// when the journal has it.
class change_feed {
public:
  explicit change_feed(size_t kept) : kept_(kept) {}

  void start(uint64_t epoch) { epoch_ = epoch; }

  void add(block_change change) {
    change.sequence = ++last_;
    changes_.push_back(change);
    if (changes_.size() > kept_) changes_.pop_front();
  }

  void publish() { published_ = last_; }

  [[nodiscard]] change_batch after(const feed_position& position, size_t limit) const {
    change_batch batch;
    batch.next = position;
    const uint64_t first = last_ - changes_.size();  // the one before the oldest kept
    if (position.epoch != epoch_ || position.sequence < first || position.sequence > published_) {
      batch.gap = true;
      return batch;
    }
    const uint64_t told = published_ - std::min(published_, first);
    for (uint64_t at = position.sequence - first; at < told && limit > 0; ++at, --limit)
      batch.changes.push_back(changes_[at]);
    batch.next.sequence += batch.changes.size();
    return batch;
  }

  [[nodiscard]] feed_position position() const { return {epoch_, published_}; }

private:
  size_t kept_;
  uint64_t epoch_ = 0;
  uint64_t last_ = 0, published_ = 0;
  std::deque<block_change> changes_;
};

}  // namespace deepinfer::storage
