#include "runtime/policy/kept_rings.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer::policy {

using storage::block_key;

void kept_rings::touch(uint64_t number, entry& e, time_point now) {
  if (e.use != 0) order_.erase(e.use);
  e.use = next_use_++;
  e.used = now;
  order_.emplace(e.use, number);
}

bool kept_rings::renew(const block_key& key, uint64_t layout, time_point now) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return false;
  entry& e = entries_.at(found->second);
  if (e.what.layout != layout) return false;
  touch(found->second, e, now);
  return true;
}

uint64_t kept_rings::add(const kept_ring& ring, time_point now) {
  remove(ring.key);
  while (by_key_.size() >= limits_.most) retire(order_.begin()->second);
  const uint64_t number = next_number_++;
  entry& e = entries_[number];
  e.what = ring;
  touch(number, e, now);
  by_key_.emplace(ring.key, number);
  bytes_ += ring.bytes;
  changed_.insert(ring.key);
  return number;
}

std::optional<ring_hold> kept_rings::pull(const block_key& key, uint64_t layout, time_point now) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  entry& e = entries_.at(found->second);
  if (e.what.layout != layout) return std::nullopt;
  touch(found->second, e, now);
  ++e.holds;
  const uint64_t lease = next_lease_++;
  holds_.emplace(lease, hold{found->second, now + hold_});
  return ring_hold{found->second, lease};
}

bool kept_rings::release(uint64_t lease) {
  const auto found = holds_.find(lease);
  if (found == holds_.end()) return false;
  const uint64_t number = found->second.number;
  holds_.erase(found);
  --entries_.at(number).holds;
  free_if_unheld(number);
  return true;
}

void kept_rings::remove(const block_key& key) {
  if (const auto found = by_key_.find(key); found != by_key_.end()) retire(found->second);
}

bool kept_rings::evict() {
  const auto free = std::find_if(order_.begin(), order_.end(), [this](const auto& one) {
    return entries_.at(one.second).holds == 0;
  });
  if (free == order_.end()) return false;
  retire(free->second);
  return true;
}

size_t kept_rings::purge(uint64_t scope) {
  std::vector<uint64_t> gone;
  for (const auto& [key, number] : by_key_)
    if (entries_.at(number).what.scope == scope) gone.push_back(number);
  for (const uint64_t number : gone) retire(number);
  return gone.size();
}

size_t kept_rings::expire(time_point now) {
  std::vector<uint64_t> ended;
  for (const auto& [lease, one] : holds_)
    if (one.ends <= now) ended.push_back(lease);
  for (const uint64_t lease : ended) release(lease);
  size_t gone = 0;
  while (!order_.empty() && entries_.at(order_.begin()->second).used + limits_.idle <= now) {
    retire(order_.begin()->second);
    ++gone;
  }
  return gone;
}

// Offered no more; the memory stays while somebody reads it.
void kept_rings::retire(uint64_t number) {
  entry& e = entries_.at(number);
  order_.erase(std::exchange(e.use, 0));
  by_key_.erase(e.what.key);
  changed_.insert(e.what.key);
  free_if_unheld(number);
}

void kept_rings::free_if_unheld(uint64_t number) {
  const auto found = entries_.find(number);
  if (found->second.use != 0 || found->second.holds != 0) return;
  bytes_ -= found->second.what.bytes;
  freed_.push_back(number);
  entries_.erase(found);
}

std::vector<uint64_t> kept_rings::freed() {
  return std::exchange(freed_, {});
}

ring_news kept_rings::news() {
  ring_news news;
  for (const block_key& key : std::exchange(changed_, {})) {
    const auto found = by_key_.find(key);
    if (found != by_key_.end()) {
      told_.insert(key);  // again, when others took the place of what was told
      news.added.push_back(entries_.at(found->second).what);
    } else if (told_.erase(key) != 0) {
      news.removed.push_back(key);
    }
  }
  return news;
}

std::vector<kept_ring> kept_rings::all() const {
  std::vector<kept_ring> rings;
  for (const auto& [key, number] : by_key_) rings.push_back(entries_.at(number).what);
  return rings;
}

}  // namespace deepinfer::policy
