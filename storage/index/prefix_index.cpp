#include "storage/index/prefix_index.hpp"

#include "proto/types/check.hpp"

#include <algorithm>
#include <mutex>

namespace deepinfer::storage {

namespace {

/// Entries changed under one hold of the lock: what a match may have to wait for.
constexpr size_t changes_at_once = 16;
constexpr uint32_t none = key_table::none;

}  // namespace

prefix_index::prefix_index(const capacity& room)
    : table_(room.expected_blocks), max_blocks_(room.max_blocks) {}

feed_position prefix_index::position() const {
  std::shared_lock lock{mutex_};
  return complete_ ? position_ : feed_position{};
}

void prefix_index::take(const block_change& change) {
  const uint32_t found = table_.find(change.key, key_at());
  if (change.kind == change_kind::removed) {
    if (found != none) drop(found);
    return;
  }
  if (found == none && table_.size() >= max_blocks_) {
    ++refused_;
    return;
  }
  const uint32_t id = found != none ? found : entries_.add();
  entry& e = entries_[id];
  e.key = change.key;
  e.content_digest = change.content_digest;
  e.depth = change.depth;
  e.expiry_s = static_cast<uint32_t>(change.expiry.count() / 1000);
  e.round = round_;
  if (found == none) table_.insert(change.key, id, key_at());
}

void prefix_index::drop(uint32_t id) {
  table_.erase(entries_[id].key, key_at());
  entries_.remove(id);
}

// Nobody else changes the table, so reading all of it needs no lock; matches wait for a swap only.
void prefix_index::make_room() {
  if (!table_.must_grow(changes_at_once)) return;
  key_table bigger = table_.grown(key_at());
  std::unique_lock lock{mutex_};
  std::swap(table_, bigger);
}

bool prefix_index::apply(const change_batch& batch) {
  {
    std::unique_lock lock{mutex_};
    if (!complete_ || batch.gap || batch.next.epoch != position_.epoch) {
      complete_ = false;
      ++gaps_;
      return false;
    }
  }
  const std::span changes{batch.changes};
  for (size_t at = 0; at < changes.size(); at += changes_at_once) {
    make_room();
    std::unique_lock lock{mutex_};
    for (const block_change& change :
         changes.subspan(at, std::min(changes_at_once, changes.size() - at))) {
      // numbers are dense: one that is missing is a gap whatever the sender says
      if (change.sequence != position_.sequence + 1) {
        complete_ = false;
        ++gaps_;
        return false;
      }
      position_.sequence = change.sequence;
      take(change);
      ++changes_;
    }
  }
  return true;
}

void prefix_index::begin_snapshot() {
  std::unique_lock lock{mutex_};
  ++round_;
  first_page_ = true;
  complete_ = false;
}

void prefix_index::add_page(const snapshot_page& page) {
  if (first_page_) snapshot_position_ = page.position;
  first_page_ = false;
  const std::span blocks{page.blocks};
  for (size_t at = 0; at < blocks.size(); at += changes_at_once) {
    make_room();
    std::unique_lock lock{mutex_};
    for (const block_change& block :
         blocks.subspan(at, std::min(changes_at_once, blocks.size() - at)))
      take(block);
  }
}

void prefix_index::end_snapshot() {
  DEEPINFER_CHECK(!first_page_);  // a snapshot has at least one page
  // what no page named is gone, or comes again with the changes after the first page
  for (uint32_t from = 0; from < entries_.end(); from += changes_at_once) {
    std::unique_lock lock{mutex_};
    const uint32_t to = std::min<uint32_t>(entries_.end(), from + changes_at_once);
    for (uint32_t id = from; id < to; ++id)
      if (entries_[id].round != 0 && entries_[id].round != round_) drop(id);
  }
  std::unique_lock lock{mutex_};
  position_ = snapshot_position_;
  complete_ = true;
  ++snapshots_;
}

uint32_t prefix_index::known_prefix(const prefix_query& query) const {
  const auto keys = query.keys;
  const auto there = [this, &query](size_t index) {
    const uint32_t id = table_.find(query.keys[index], key_at());
    return id != none && entries_[id].depth == query.first_depth + index;
  };
  // parts of prompts are mostly stored whole or not at all
  if (there(keys.size() - 1)) return static_cast<uint32_t>(keys.size());
  size_t known = 0, probe = 1;
  while (probe <= keys.size() && there(probe - 1)) {
    known = probe;
    probe *= 2;
  }
  size_t missing = std::min(probe, keys.size() + 1);
  while (missing - known > 1) {
    const size_t middle = known + (missing - known) / 2;
    (there(middle - 1) ? known : missing) = middle;
  }
  return static_cast<uint32_t>(known);
}

bool prefix_index::confirmed(const prefix_query& query, uint32_t index) const {
  const uint32_t id = table_.find(query.keys[index], key_at());
  if (id == none) return false;
  const size_t block_tokens = query.tokens.size() / query.keys.size();
  const auto content = content_of(query.tokens.subspan(index * block_tokens, block_tokens),
                                  query.first_depth + index, query.media);
  return entries_[id].content_digest == content_digest(content);
}

index_match prefix_index::match(const prefix_query& query) const {
  ++matches_;
  index_match found;
  if (query.keys.empty() || query.tokens.size() % query.keys.size() != 0) return found;
  std::shared_lock lock{mutex_};
  found.store_epoch = position_.epoch;
  uint32_t blocks = known_prefix(query);
  while (blocks > 0) {
    const uint32_t last = blocks - 1;
    const bool last_good = confirmed(query, last);
    if (last_good && (last == 0 || confirmed(query, last - 1))) break;
    ++hash_collisions_;
    blocks = last_good ? last - 1 : last;
  }
  found.blocks = blocks;
  if (blocks == 0) return found;
  const uint32_t id = table_.find(query.keys[blocks - 1], key_at());
  found.expiry = std::chrono::seconds{entries_[id].expiry_s};
  return found;
}

index_stats prefix_index::stats() const {
  std::shared_lock lock{mutex_};
  index_stats s;
  s.blocks = table_.size();
  s.memory_bytes = table_.memory_bytes() + entries_.memory_bytes();
  s.matches = matches_;
  s.hash_collisions = hash_collisions_;
  s.changes = changes_;
  s.gaps = gaps_;
  s.snapshots = snapshots_;
  s.refused = refused_;
  s.complete = complete_;
  return s;
}

}  // namespace deepinfer::storage
