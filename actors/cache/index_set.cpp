#include "actors/cache/index_set.hpp"

#include "proto/types/check.hpp"
#include "storage/block/group_cut.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer {

index_set::offered index_set::offer(const store_facts& store) {
  if (!store.id || store.group_blocks == 0 || !store.actor) return offered::useless;
  const auto found = all_.find(store.id);
  if (found == all_.end() && all_.size() >= shape_.max_stores) return offered::too_many;
  if (found != all_.end() && found->second.offered && found->second.facts.epoch > store.epoch)
    return offered::older_life;
  entry& to = all_[store.id];
  to.facts = store;
  to.offered = true;
  if (!to.index)
    to.index = std::make_shared<storage::prefix_index>(
        storage::prefix_index::capacity{.max_blocks = shape_.max_blocks});
  arrange();
  return offered::taken;
}

storage::block_key index_set::withdraw(const actor_ref& actor, time_point now) {
  for (auto& [id, one] : all_) {
    if (!one.offered || one.facts.actor != actor) continue;
    one.offered = false;
    one.withdrawn = now;
    arrange();
    return id;
  }
  return {};
}

std::vector<storage::block_key> index_set::forget(time_point since) {
  std::vector<storage::block_key> gone;
  std::erase_if(all_, [&](const auto& item) {
    if (item.second.offered || item.second.withdrawn >= since) return false;
    gone.push_back(item.first);
    return true;
  });
  return gone;  // `arrange` counted them out when they were withdrawn
}

std::shared_ptr<storage::prefix_index> index_set::index(const storage::block_key& id) const {
  const auto found = all_.find(id);
  return found == all_.end() ? nullptr : found->second.index;
}

void index_set::arrange() {
  std::map<uint32_t, size_t> sizes;
  for (const auto& [id, one] : all_)
    if (one.offered) ++sizes[one.facts.group_blocks];
  const auto usual = std::max_element(
      sizes.begin(), sizes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  group_blocks_ = usual == sizes.end() ? shape_.default_group_blocks : usual->first;
  sites_.clear();
  entries_.clear();
  for (const auto& [id, one] : all_) {
    if (!one.offered || one.facts.group_blocks != group_blocks_) continue;
    sites_.push_back({id.hi, id.lo, one.facts.weight});
    entries_.push_back(&one);
  }
}

// Blocks of this group that some store has; who has so many.
uint32_t index_set::match_group(const storage::prefix_query& query,
                                std::vector<actor_ref>& holders) const {
  const auto order = policy::owners(query.keys[0], sites_, static_cast<uint32_t>(sites_.size()));
  const auto whole = static_cast<uint32_t>(query.keys.size());
  uint32_t best = 0;
  for (uint32_t place = 0; place < order.size(); ++place) {
    if (best == whole && (place >= shape_.look_for_copies || holders.size() >= shape_.max_copies))
      break;
    const entry& store = *entries_[order[place]];
    const uint32_t blocks = store.index->match(query).blocks;
    if (blocks == 0 || blocks < best) continue;
    if (blocks > best) holders.clear();
    best = blocks;
    if (holders.size() < shape_.max_copies) holders.push_back(store.facts.actor);
  }
  return best;
}

prefix_hit index_set::match(const storage::block_key& root,
                            std::span<const int32_t> tokens,
                            const storage::shared_prefix& shared) const {
  prefix_hit hit;
  hit.prompt_blocks = static_cast<uint32_t>(tokens.size() / shape_.block_tokens);
  if (sites_.empty()) return hit;
  const storage::group_cut cut{group_blocks_, shared.blocks};
  storage::chain_hasher hasher{shared.blocks == 0 ? root : shared.root, shape_.block_tokens};
  for (uint32_t first = 0; first < hit.prompt_blocks;) {
    if (first != 0 && first == shared.blocks) hasher.continue_in(root);
    const auto end = std::min<uint64_t>(cut.end_of(cut.group_of(first)), hit.prompt_blocks);
    const auto blocks = static_cast<uint32_t>(end) - first;
    const auto part =
        tokens.subspan(size_t{first} * shape_.block_tokens, size_t{blocks} * shape_.block_tokens);
    const bool hashed{hasher.append(part, {}, hit.keys)};
    DEEPINFER_CHECK(hashed);  // fails for media marks alone
    std::vector<actor_ref> holders;
    const std::span keys{hit.keys};
    const uint32_t found =
        match_group({keys.subspan(first, blocks), part, {}, cut.depth_of(first)}, holders);
    if (found > 0) hit.groups.push_back(std::move(holders));
    hit.hit_blocks += found;
    if (found < blocks) break;
    first += blocks;
  }
  return hit;
}

storage::index_stats index_set::stats() const {
  storage::index_stats sum;
  sum.complete = true;
  for (const auto& [id, one] : all_) {
    const auto s = one.index->stats();
    sum.blocks += s.blocks;
    sum.memory_bytes += s.memory_bytes;
    sum.matches += s.matches;
    sum.hash_collisions += s.hash_collisions;
    sum.refused += s.refused;
    sum.changes += s.changes;
    sum.gaps += s.gaps;
    sum.snapshots += s.snapshots;
    sum.complete = sum.complete && (s.complete || !one.offered);
  }
  return sum;
}

}  // namespace deepinfer
