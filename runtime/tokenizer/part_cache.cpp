#include "runtime/tokenizer/part_cache.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace deepinfer::text {
namespace {

bool is_same(const kept_part& kept, const text_part& part) {
  if (kept.text != part.text || kept.specials.size() != part.specials.size()) return false;
  for (size_t i = 0; i < part.specials.size(); ++i)
    if (kept.specials[i].begin != part.specials[i].begin - part.offset ||
        kept.specials[i].end != part.specials[i].end - part.offset)
      return false;
  return true;
}

}  // namespace

digest128 part_cache::digest_of_part(const text_part& part) {
  const digest128 bytes = digest_of(part.text);
  if (part.specials.empty()) return bytes;
  const std::vector<special_range> own = own_specials(part);
  const digest128 ranges = digest_of(std::as_bytes(std::span{own}));
  const uint64_t both[] = {bytes.hi, bytes.lo, ranges.hi, ranges.lo};
  return digest_of(std::as_bytes(std::span{both}));
}

std::shared_ptr<const kept_part> part_cache::make(const text_part& part,
                                                  std::vector<int32_t> ids) const {
  ids.shrink_to_fit();
  return std::make_shared<const kept_part>(
      kept_part{key_(part), std::string(part.text), own_specials(part), std::move(ids)});
}

std::vector<std::shared_ptr<const kept_part>> part_cache::find(std::string_view scope,
                                                               std::span<const text_part> parts) {
  std::vector<digest128> keys;
  keys.reserve(parts.size());
  for (const text_part& part : parts) keys.push_back(key_(part));
  std::vector<part_ptr> found(parts.size());
  // From the end: the beginning, which most prompts share, is the most recently used afterwards.
  for (size_t end = parts.size(); end > 0;) {
    const size_t count = std::min(batch, end);
    end -= count;
    look_up(scope, std::span{keys}.subspan(end, count), std::span{found}.subspan(end, count));
  }
  part_cache_counters seen;
  for (size_t i = 0; i < parts.size(); ++i) {
    seen.bytes_asked += parts[i].text.size();
    if (found[i] == nullptr) continue;
    if (!is_same(*found[i], parts[i])) {
      found[i] = nullptr;
      continue;
    }
    ++seen.parts_found;
    seen.bytes_found += parts[i].text.size();
    seen.ids_found += found[i]->ids.size();
  }
  const std::lock_guard lock{mutex_};
  counters_.parts_asked += parts.size();
  counters_.bytes_asked += seen.bytes_asked;
  counters_.parts_found += seen.parts_found;
  counters_.bytes_found += seen.bytes_found;
  counters_.ids_found += seen.ids_found;
  return found;
}

void part_cache::look_up(std::string_view scope,
                         std::span<const digest128> keys,
                         std::span<part_ptr> found) {
  const std::lock_guard lock{mutex_};
  const auto at = rooms_.find(scope);
  if (at == rooms_.end()) return;
  room& inside = at->second;
  recent_rooms_.splice(recent_rooms_.begin(), recent_rooms_, inside.place);
  for (size_t i = keys.size(); i-- > 0;) {
    const auto hit = inside.slots.find(keys[i]);
    if (hit == inside.slots.end()) continue;
    found[i] = hit->second.part;
    inside.recent.splice(inside.recent.begin(), inside.recent, hit->second.place);
  }
}

void part_cache::keep(std::string_view scope, std::span<const part_ptr> parts) {
  leaving out;  // freed after the last lock
  for (size_t end = parts.size(); end > 0;) {
    const size_t count = std::min(batch, end);
    const std::lock_guard lock{mutex_};
    for (size_t i = 0; i < count; ++i) insert(scope, parts[--end], out);
  }
}

void part_cache::insert(std::string_view scope, const part_ptr& part, leaving& out) {
  const size_t bytes = part->bytes();
  if (bytes > std::min(limits_.max_scope_bytes, limits_.max_bytes) || limits_.max_parts == 0 ||
      limits_.max_scopes == 0)
    return;
  const auto into = enter(scope, out);
  room& inside = into->second;
  auto [at, is_new] = inside.slots.try_emplace(part->key);
  slot& kept = at->second;
  if (is_new) {
    inside.recent.push_front(at);
    kept.place = inside.recent.begin();
    ++counters_.parts;
  } else {  // encoded by two threads at once, or another content of the same digest
    inside.recent.splice(inside.recent.begin(), inside.recent, kept.place);
    inside.bytes -= kept.part->bytes();
    counters_.bytes -= kept.part->bytes();
    out.parts.push_back(std::move(kept.part));
  }
  kept.part = part;
  inside.bytes += bytes;
  counters_.bytes += bytes;
  // Neither loop can reach the new part, the most recent of the most recent scope: it fits alone.
  while (inside.bytes > limits_.max_scope_bytes) drop_oldest(into, out);
  while (counters_.bytes > limits_.max_bytes || counters_.parts > limits_.max_parts)
    drop_oldest(recent_rooms_.back(), out);
}

part_cache::room_map::iterator part_cache::enter(std::string_view scope, leaving& out) {
  auto at = rooms_.find(scope);
  if (at != rooms_.end()) {
    recent_rooms_.splice(recent_rooms_.begin(), recent_rooms_, at->second.place);
    return at;
  }
  while (rooms_.size() >= limits_.max_scopes) drop_room(recent_rooms_.back(), out);
  at = rooms_.try_emplace(std::string(scope)).first;
  recent_rooms_.push_front(at);
  at->second.place = recent_rooms_.begin();
  return at;
}

void part_cache::drop_oldest(room_map::iterator from, leaving& out) {
  room& inside = from->second;
  const auto oldest = inside.recent.back();
  const size_t bytes = oldest->second.part->bytes();
  inside.bytes -= bytes;
  counters_.bytes -= bytes;
  --counters_.parts;
  ++counters_.parts_given_up;
  out.parts.push_back(std::move(oldest->second.part));
  inside.recent.pop_back();
  inside.slots.erase(oldest);
  if (inside.recent.empty()) drop_room(from, out);
}

void part_cache::drop_room(room_map::iterator which, leaving& out) {
  counters_.bytes -= which->second.bytes;
  counters_.parts -= which->second.slots.size();
  counters_.parts_given_up += which->second.slots.size();
  recent_rooms_.erase(which->second.place);
  out.rooms.push_back(rooms_.extract(which));
}

part_cache_counters part_cache::counters() const {
  const std::lock_guard lock{mutex_};
  part_cache_counters now = counters_;
  now.scopes = rooms_.size();
  return now;
}

}  // namespace deepinfer::text
