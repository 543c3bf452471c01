#include "actors/cache/ring_table.hpp"

#include <algorithm>
#include <tuple>

namespace deepinfer {

ring_table::heard ring_table::apply(const actor_ref& host, const news& what) {
  const key_of_ref name{host.node, host.actor};
  auto known = hosts_.find(name);
  if (known == hosts_.end()) {
    if (what.number != 0) return heard::gap;
    if (hosts_.size() >= limits_.max_hosts) return heard::too_many;
    known = hosts_.emplace(name, host_state{host, next_host_++, 0}).first;
    refs_.emplace(known->second.number, host);
  } else if (what.number != 0 && what.number != known->second.last + 1) {
    return heard::gap;
  }
  host_state& state = known->second;
  if (what.number == 0) clear(state.number);
  state.last = what.number;
  for (const auto& key : what.removed) remove(state.number, key);
  for (const ring& one : what.added) add(state.number, one);
  return heard::taken;
}

ring_table::ring_map::iterator ring_table::position(uint32_t host, const storage::block_key& key) {
  const auto [first, last] = rings_.equal_range(key);
  const auto found =
      std::find_if(first, last, [host](const auto& item) { return item.second.host == host; });
  return found == last ? rings_.end() : found;
}

void ring_table::add(uint32_t host, const ring& what) {
  const auto known = position(host, what.key);
  if (known != rings_.end()) {
    known->second.bytes = what.bytes;
  } else if (rings_.size() >= limits_.max_rings) {
    ++refused_;
  } else {
    rings_.emplace(what.key, kept{host, what.bytes});
  }
}

void ring_table::remove(uint32_t host, const storage::block_key& key) {
  const auto known = position(host, key);
  if (known != rings_.end()) rings_.erase(known);
}

void ring_table::clear(uint32_t host) {
  std::erase_if(rings_, [host](const auto& item) { return item.second.host == host; });
}

void ring_table::drop(const actor_ref& host) {
  const auto known = hosts_.find({host.node, host.actor});
  if (known == hosts_.end()) return;
  clear(known->second.number);
  refs_.erase(known->second.number);
  hosts_.erase(known);
}

std::vector<ring_table::place> ring_table::find(std::span<const storage::block_key> keys) const {
  std::vector<place> found;
  const size_t hit = keys.size();
  const size_t end = hit - std::min<size_t>(hit, limits_.look_back);
  for (size_t blocks = hit; blocks > end; --blocks) {
    const auto [first, last] = rings_.equal_range(keys[blocks - 1]);
    const size_t before = found.size();
    for (auto it = first; it != last; ++it)
      found.push_back({static_cast<uint32_t>(blocks), refs_.at(it->second.host), it->second.bytes});
    // not in the order of a hash table: a replay must tell the same
    std::sort(found.begin() + static_cast<ptrdiff_t>(before), found.end(),
              [](const place& a, const place& b) {
                return std::tie(a.host.node, a.host.actor) < std::tie(b.host.node, b.host.actor);
              });
    if (found.size() >= limits_.max_told) break;
  }
  if (found.size() > limits_.max_told) found.resize(limits_.max_told);
  return found;
}

}  // namespace deepinfer
