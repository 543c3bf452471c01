#include "actors/cache/block_shelf.hpp"

#include "proto/types/check.hpp"

namespace deepinfer {

using storage::block_key;

std::optional<uint64_t> block_shelf::take(uint64_t bytes) {
  while (true) {
    if (const auto at = pool_.take(bytes)) return at;
    if (idle_.empty()) return std::nullopt;
    erase_idle(blocks_.find(idle_.front()));
    ++made_way_;
  }
}

void block_shelf::erase_idle(block_map::iterator at) {
  pool_.give(at->second.place.offset, at->second.span);
  idle_.erase(at->second.idle);
  blocks_.erase(at);
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
  --holds_;
  if (--at->second.holders != 0) return;
  at->second.idle = idle_.insert(idle_.end(), key);
  if (at->second.retired) erase_idle(at);
}

void block_shelf::retire(const block_key& key) {
  const auto at = blocks_.find(key);
  if (at == blocks_.end()) return;
  at->second.retired = true;
  if (at->second.holders == 0) erase_idle(at);
}

size_t block_shelf::retire_all() {
  const size_t all = blocks_.size();
  while (!idle_.empty()) erase_idle(blocks_.find(idle_.front()));
  for (auto& [key, held] : blocks_) held.retired = true;
  return all;
}

bool block_shelf::offers(const block_key& key) const {
  const auto at = blocks_.find(key);
  return at != blocks_.end() && !at->second.retired;
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
