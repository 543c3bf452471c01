// How blocks end: expiry, pressure, quarantine, purge. And how a store's blocks come back.
#include "proto/types/check.hpp"
#include "storage/catalog/catalogue.hpp"

#include <algorithm>

namespace deepinfer::storage {

void catalogue::remove(uint32_t id, catalogue_effects& effects) {
  entry& e = entries_[id];
  DEEPINFER_CHECK(e.first_child == none && e.pins == 0);
  if (e.state == block_state::committed) {
    announce(change_kind::removed, id);
    effects.erased.push_back(e.key);
    lists_of(e).remove(id, entries_);
    --committed_;
  } else {
    --doomed_;
  }
  effects.freed.push_back(
      {{e.segment, e.offset_units * location_unit}, e.length, scopes_[e.scope].id});
  live_bytes_ -= stride_of(e.length);
  scopes_[e.scope].bytes -= stride_of(e.length);
  unlink(id);
  if (is_head(e.depth)) head_parents_.erase(id);
  table_.erase(e.key, key_at());
  entries_.remove(id);
}

bool catalogue::drop(uint32_t id, catalogue_effects& effects) {
  if (entries_[id].first_child != none || entries_[id].pins > 0) return false;
  remove(id, effects);
  return true;
}

/// An entry and all below it, leaf first, as long as the rules agree and nothing is pinned.
template <class Rules>
void catalogue::remove_tree(uint32_t id, Rules& rules, catalogue_effects& effects) {
  for (uint32_t at = id;;) {
    while (entries_[at].first_child != none) at = entries_[at].first_child;
    if (entries_[at].pins > 0 || !rules.go_on(entries_[at])) return;
    const uint32_t parent = entries_[at].parent;
    rules.removing(entries_[at]);
    remove(at, effects);
    if (at == id) return;
    at = parent;
  }
}

/// Walks the lists from the earliest end of life. Below an entry everything ends with it or
/// earlier, so its whole tree goes; what is pinned or not wanted is stepped over.
template <class Rules>
void catalogue::remove_due(expiry_lists& lists, Rules& rules, catalogue_effects& effects) {
  auto list = lists.heads().begin();
  while (list != lists.heads().end()) {
    const int64_t time = list->first;
    uint32_t stepped_over = none;
    uint32_t id = list->second;
    while (id != none) {
      if (!rules.go_on(entries_[id])) return;
      if (rules.wants(entries_[id])) remove_tree(id, rules, effects);
      // nothing is added here, so a number that is in use still means the same entry
      if (entries_[id].state == block_state::committed) stepped_over = id;
      if (stepped_over != none) {
        id = entries_[stepped_over].next_due;
      } else {
        const auto again = lists.heads().find(time);
        id = again == lists.heads().end() ? none : again->second;
      }
    }
    list = lists.heads().upper_bound(time);
  }
}

uint64_t catalogue::expire(cluster_time now, uint64_t budget, catalogue_effects& effects) {
  struct {
    int64_t now_ms;
    uint64_t left;
    bool go_on(const entry& e) const { return e.expiry_ms <= now_ms && left > 0; }
    bool wants(const entry&) const { return true; }
    void removing(const entry&) { --left; }
  } rules{now.count(), budget};
  remove_due(agent_due_, rules, effects);
  remove_due(chat_due_, rules, effects);
  return budget - rules.left;
}

void catalogue::note_eviction(const entry& e, cluster_time now) {
  const int64_t age = std::max<int64_t>(0, now.count() - int64_t{e.accessed_s} * 1000);
  last_eviction_ms_ = static_cast<uint64_t>(age);
  youngest_eviction_ms_ = std::min(youngest_eviction_ms_, last_eviction_ms_);
  if (age < config_.floor.count()) ++evicted_below_floor_;
}

uint64_t catalogue::evict(uint64_t wanted_bytes,
                          uint64_t budget,
                          cluster_time now,
                          catalogue_effects& effects) {
  struct {
    catalogue& all;
    cluster_time now;
    uint64_t live_goal;
    uint64_t left;
    bool over_quota_only;
    bool go_on(const entry&) const { return all.live_bytes_ > live_goal && left > 0; }
    bool wants(const entry& e) const {
      const scope_share& share = all.scopes_[e.scope];
      return !over_quota_only || share.bytes > all.quota_of(share);
    }
    void removing(const entry& e) {
      --left;
      all.note_eviction(e, now);
    }
  } rules{*this, now, live_bytes_ > wanted_bytes ? live_bytes_ - wanted_bytes : 0, budget, true};
  const bool some_over = std::any_of(scopes_.begin(), scopes_.end(), [this](const auto& share) {
    return share.bytes > quota_of(share);
  });
  for (const bool over_quota_only : {true, false}) {
    if (over_quota_only && !some_over) continue;
    rules.over_quota_only = over_quota_only;
    remove_due(agent_due_, rules, effects);
    remove_due(chat_due_, rules, effects);
  }
  return budget - rules.left;
}

void catalogue::unpin(uint32_t id, catalogue_effects& effects) {
  entry& e = entries_[id];
  DEEPINFER_CHECK(e.pins > 0);
  --e.pins;
  while (id != none) {
    const entry& at = entries_[id];
    if (at.state != block_state::doomed || at.pins > 0 || at.first_child != none) return;
    const uint32_t parent = at.parent;
    remove(id, effects);
    id = parent;
  }
}

void catalogue::mark_doomed(uint32_t id, catalogue_effects& effects) {
  entry& e = entries_[id];
  if (e.state != block_state::committed) return;
  announce(change_kind::removed, id);
  effects.erased.push_back(e.key);
  lists_of(e).remove(id, entries_);
  e.state = block_state::doomed;
  --committed_;
  ++doomed_;
}

uint64_t catalogue::doom(uint32_t id, catalogue_effects& effects) {
  // parents before children, so that walking backwards is leaf first
  std::vector<uint32_t> tree{id};
  for (size_t i = 0; i < tree.size(); ++i)
    for (uint32_t child = entries_[tree[i]].first_child; child != none;
         child = entries_[child].next_sibling)
      tree.push_back(child);
  const uint64_t before = committed_;
  for (const uint32_t member : tree) mark_doomed(member, effects);
  const uint64_t marked = before - committed_;
  for (auto member = tree.rbegin(); member != tree.rend(); ++member)
    if (entries_[*member].pins == 0 && entries_[*member].first_child == none)
      remove(*member, effects);
  return marked;
}

/// The first of these siblings, or of those behind it, that is committed. Those stepped over wait
/// for their pins, so they are no more than there may be leases.
uint32_t catalogue::committed_among(uint32_t sibling) const {
  while (sibling != none && !is_committed(sibling)) sibling = entries_[sibling].next_sibling;
  return sibling;
}

/// An entry and all below it. False when nothing is left of what it may look at: the rest has its
/// parents, and is found again from the same root.
bool catalogue::doom_from_leaves(uint32_t root,
                                 const dooming& each,
                                 uint64_t& left,
                                 catalogue_effects& effects) {
  uint32_t at = root;
  for (bool below_is_done = false;;) {
    if (!below_is_done) {
      const uint32_t child = committed_among(entries_[at].first_child);
      if (child != none) {
        at = child;
        continue;
      }
    }
    if (left == 0) return false;
    --left;
    const uint32_t parent = entries_[at].parent, beside = entries_[at].next_sibling;
    each(entries_[at]);
    mark_doomed(at, effects);
    if (entries_[at].pins == 0 && entries_[at].first_child == none) remove(at, effects);
    if (at == root) return true;
    // those in front of it are doomed already
    const uint32_t next = committed_among(beside);
    below_is_done = next == none;
    at = below_is_done ? parent : next;
  }
}

uint32_t catalogue::doom_some(
    scope_id scope, uint32_t from, const dooming& each, uint64_t most, catalogue_effects& effects) {
  const auto known = scope_numbers_.find(static_cast<uint64_t>(scope));
  if (known == scope_numbers_.end()) return none;
  constexpr uint64_t places_each = 4;  // looking at one costs less than dooming it
  uint64_t left = most;
  for (uint32_t id = from; id < entries_.end(); ++id) {
    if (id - from == places_each * most) return id;
    const entry& e = entries_[id];
    if (e.scope != known->second) continue;
    if (e.state == block_state::doomed) each(e);  // its bytes wait for the end of a lease
    if (e.state != block_state::committed) continue;
    if (!doom_from_leaves(id, each, left, effects)) return id;
  }
  return none;
}

// ---- opening

void catalogue::load(const block_record& record) {
  const uint32_t id = make_entry(record);
  if (id >= parents_to_link_.size()) parents_to_link_.resize(id + size_t{1});
  parents_to_link_[id] = record.parent;
}

/// One walk over all entries: a parent is two cache misses away, the table's and the entry's, and
/// both are asked for ahead. A parent may be linked to its own parent before or after its children:
/// what they raise goes up as far as there are links, and further with the next one.
catalogue_effects catalogue::finish_loading() {
  catalogue_effects dropped;
  catalogue_effects raised;
  std::vector<uint32_t> orphans;
  const uint32_t count = entries_.end();
  for (uint32_t id = 0; id < count; ++id) {
    if (count - id > 2 * ahead) table_.prefetch(parents_to_link_[id + 2 * ahead]);
    if (count - id > ahead) entries_.prefetch(table_.guess(parents_to_link_[id + ahead]));
    const entry& e = entries_[id];
    if (is_head(e.depth)) continue;
    const uint32_t parent = find(parents_to_link_[id]);
    if (!is_parent(parent, e.depth) || entries_[parent].scope != e.scope) {
      orphans.push_back(id);
      continue;
    }
    link(id, parent);
    raise(parent, e.expiry_ms, e.classes, 0, raised);
  }
  parents_to_link_ = {};
  for (const uint32_t id : orphans) doom(id, dropped);  // with all below them
  return dropped;
}

// ---- the rules, checked the slow way

std::optional<std::string> catalogue::broken_rule() const {
  uint64_t committed = 0, doomed = 0, bytes = 0;
  for (uint32_t id = 0; id < entries_.end(); ++id) {
    const entry& e = entries_[id];
    if (e.state == block_state::reserved) continue;
    (e.state == block_state::committed ? committed : doomed) += 1;
    bytes += stride_of(e.length);
    if (find(e.key) != id) return "an entry is not found by its key";
    if ((e.parent == none) != is_head(e.depth)) return "a head with a parent, or another without";
    if (e.parent == none) continue;
    const entry& p = entries_[e.parent];
    if (p.depth + 1 != e.depth || p.scope != e.scope) return "a parent of another depth or scope";
    if (e.state == block_state::committed) {
      if (p.state != block_state::committed) return "a committed block without committed parent";
      if (p.expiry_ms < e.expiry_ms) return "a parent ends before its child";
      if ((p.classes | e.classes) != p.classes) return "a parent lacks a class of its child";
    }
  }
  if (committed != committed_ || doomed != doomed_ || bytes != live_bytes_)
    return "counters differ from what is there";
  uint64_t due = 0;
  for (const expiry_lists* lists : {&agent_due_, &chat_due_})
    for (const auto& [time, head] : lists->heads())
      for (uint32_t id = head; id != none; id = entries_[id].next_due, ++due)
        if (entries_[id].expiry_ms != time) return "an entry is in the list of another time";
  if (due != committed_) return "the expiry lists do not hold every committed block once";
  return std::nullopt;
}

}  // namespace deepinfer::storage
