#include "runtime/policy/group_moves.hpp"

#include <algorithm>

namespace deepinfer::policy {

using storage::block_key;

namespace {

bool same_place(const move_store& a, const move_store& b) {
  return a.site.weight == b.site.weight && a.group_blocks == b.group_blocks &&
         a.replicas == b.replicas;
}

}  // namespace

group_moves::group_moves(const move_store& self, const move_limits& limits, time_point now)
    : limits_(limits), self_(self.id()), replicas_(self.replicas), last_walk_(now), last_all_(now) {
  places_.emplace(self_, place{self, true, {}, {}, {}});
  arrange(now);
  quiet_until_ = now + limits.gone_after;
}

void group_moves::arrange(time_point now) {
  sites_.clear();
  for (const auto& [id, where] : places_) sites_.push_back(where.what.site);
  ++placement_;
  all_due_ = true;
  quiet_until_ = std::max(quiet_until_, now + limits_.settle);
}

void group_moves::set_store(const move_store& store, time_point now) {
  if (store.id() == self_) return;
  const auto [at, fresh] = places_.try_emplace(store.id());
  const bool back = !fresh && !at->second.present;
  const bool changed = fresh || !same_place(at->second.what, store);
  at->second = place{store, true, {}, {}, {}};
  if (changed) return arrange(now);
  if (!back) return;
  // Places are as they were; but what was written meanwhile lies with others.
  all_due_ = true;
  quiet_until_ = std::max(quiet_until_, now + limits_.settle);
}

void group_moves::lose_store(const block_key& id, time_point now) {
  const auto at = places_.find(id);
  if (id == self_ || at == places_.end() || !at->second.present) return;
  at->second.present = false;
  at->second.gone_since = now;
}

std::optional<walk_kind> group_moves::due(time_point now) {
  const size_t before = places_.size();
  std::erase_if(places_, [&](const auto& entry) {
    return !entry.second.present && now - entry.second.gone_since >= limits_.gone_after;
  });
  if (places_.size() != before) arrange(now);
  if (places_.size() < 2 || now < quiet_until_ || !agree()) return std::nullopt;
  if (all_due_ || now - last_all_ >= limits_.copies_every) return walk_kind::all;
  if (now - last_walk_ < limits_.strays_every) return std::nullopt;
  return retry_all_ ? walk_kind::all : walk_kind::strays;
}

void group_moves::walked(walk_kind kind, uint64_t waiting, time_point now) {
  last_walk_ = now;
  if (kind == walk_kind::strays) return;
  last_all_ = now;
  all_due_ = false;
  retry_all_ = waiting > 0;
}

group_owners group_moves::owners(const block_key& head) const {
  group_owners found;
  for (const uint32_t i : policy::owners(head, sites_, replicas_)) {
    const block_key id{sites_[i].id_hi, sites_[i].id_lo};
    if (id == self_)
      found.mine = true;
    else
      found.others.push_back(id);
  }
  return found;
}

bool group_moves::answers(const block_key& id, time_point now) const {
  const auto at = places_.find(id);
  return at != places_.end() && at->second.present && now >= at->second.left_out_until;
}

void group_moves::failed(const block_key& id, time_point now) {
  const auto at = places_.find(id);
  if (at == places_.end()) return;
  place& where = at->second;
  where.penalty = std::clamp(2 * where.penalty, limits_.left_out, limits_.left_out_most);
  where.left_out_until = now + where.penalty;
}

void group_moves::worked(const block_key& id) {
  if (const auto at = places_.find(id); at != places_.end()) at->second.penalty = {};
}

bool group_moves::agree() const {
  const move_store& self = places_.at(self_).what;
  return std::all_of(places_.begin(), places_.end(), [&self](const auto& entry) {
    const place& other = entry.second;
    return !other.present ||
           (other.what.group_blocks == self.group_blocks && other.what.replicas == self.replicas);
  });
}

}  // namespace deepinfer::policy
