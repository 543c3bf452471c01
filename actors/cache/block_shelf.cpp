#include "actors/cache/block_shelf.hpp"

#include "proto/types/check.hpp"

namespace deepinfer {

using storage::block_key;

std::optional<uint64_t> block_shelf::take(uint64_t bytes) {
  while (true) {
    if (const auto at = pool_.take(bytes)) return at;
    if (idle_.empty()) return std::nullopt;
    const auto oldest = blocks_.find(idle_.front());
    pool_.give(oldest->second.place.offset, oldest->second.span);
    blocks_.erase(oldest);
    idle_.pop_front();
    ++made_way_;
  }
}

bool block_shelf::put(const block_key& key, const shelf_place& place, uint64_t span) {
  const auto [at, is_new] = blocks_.try_emplace(key);
  if (!is_new) {
    pool_.give(place.offset, span);
    return false;
  }
  at->second.place = place;
  at->second.span = span;
  at->second.idle = idle_.insert(idle_.end(), key);
  return true;
}

const shelf_place* block_shelf::find(const block_key& key) const {
  const auto at = blocks_.find(key);
  return at == blocks_.end() ? nullptr : &at->second.place;
}

void block_shelf::hold(const block_key& key) {
  const auto at = blocks_.find(key);
  DEEPINFER_CHECK(at != blocks_.end());
  if (at->second.holders++ == 0) idle_.erase(at->second.idle);
  ++holds_;
}

void block_shelf::drop(const block_key& key) {
  const auto at = blocks_.find(key);
  DEEPINFER_CHECK(at != blocks_.end() && at->second.holders > 0);
  if (--at->second.holders == 0) at->second.idle = idle_.insert(idle_.end(), key);
  --holds_;
}

std::optional<std::chrono::nanoseconds> block_shelf::told(const block_key& key) const {
  const auto at = blocks_.find(key);
  if (at == blocks_.end()) return std::nullopt;
  return at->second.told;
}

void block_shelf::set_told(const block_key& key, std::chrono::nanoseconds when) {
  if (const auto at = blocks_.find(key); at != blocks_.end()) at->second.told = when;
}

}  // namespace deepinfer
