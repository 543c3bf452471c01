#include "storage/catalog/catalogue.hpp"

#include "proto/types/check.hpp"

#include <algorithm>

namespace deepinfer::storage {

namespace {

uint32_t seconds(cluster_time time) {
  return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::seconds>(time).count());
}

}  // namespace

catalogue::catalogue(const store_config& config)
    : config_(config), table_(config.expected_blocks), feed_(config.feed_changes) {}

// ---- tables of what many entries share

uint32_t catalogue::scope_number(scope_id scope) {
  const auto [at, fresh] = scope_numbers_.try_emplace(static_cast<uint64_t>(scope),
                                                      static_cast<uint32_t>(scopes_.size()));
  if (fresh) scopes_.push_back({.id = scope});
  return at->second;
}

uint32_t catalogue::writer_number(const writer_ref& writer) {
  const auto [at, fresh] = writer_numbers_.try_emplace(std::pair(writer.id, writer.epoch),
                                                       static_cast<uint32_t>(writers_.size()));
  if (fresh) writers_.push_back(writer);
  return at->second;
}

uint64_t catalogue::quota_of(const scope_share& share) const {
  return share.quota.value_or(config_.default_quota_bytes);
}

void catalogue::set_quota(scope_id scope, uint64_t bytes) {
  scopes_[scope_number(scope)].quota = bytes;
}

bool catalogue::fits_quota(scope_id scope, uint64_t bytes) {
  const scope_share& share = scopes_[scope_number(scope)];
  const uint64_t quota = quota_of(share);
  return share.bytes <= quota && bytes <= quota - share.bytes;
}

void catalogue::charge(scope_id scope, int64_t bytes) {
  scopes_[scope_number(scope)].bytes += static_cast<uint64_t>(bytes);
}

uint64_t catalogue::scope_bytes(scope_id scope) {
  return scopes_[scope_number(scope)].bytes;
}

int64_t catalogue::end_of_life(traffic_class use, cluster_time now) const {
  const auto ttl = use == traffic_class::agent ? config_.ttl_agent : config_.ttl_chat;
  const int64_t step = std::max<int64_t>(1, ttl.count() / refresh_steps);
  return (now.count() + ttl.count() + step - 1) / step * step;
}

// ---- entries and their links

uint32_t catalogue::make_entry(const block_record& record) {
  const uint32_t id = entries_.add();
  entry& e = entries_[id];
  e.key = record.key;
  e.checksum = record.checksum;
  e.content_digest = record.content_digest;
  e.expiry_ms = record.expiry.count();
  e.segment = record.location.segment;
  e.offset_units = static_cast<uint32_t>(record.location.offset / location_unit);
  e.length = record.length;
  e.scope = scope_number(record.scope);
  e.writer = writer_number(record.writer);
  e.created_s = seconds(record.created);
  e.accessed_s = seconds(record.accessed);
  e.depth = record.depth;
  e.state = block_state::committed;
  e.classes = record.classes;
  if (is_head(record.depth)) head_parents_.emplace(id, record.parent);
  table_.insert(record.key, id, key_at());
  members_[e.segment].push_back(id);
  lists_of(e).add(id, entries_);
  ++committed_;
  live_bytes_ += stride_of(e.length);
  scopes_[e.scope].bytes += stride_of(e.length);
  return id;
}

void catalogue::link(uint32_t id, uint32_t parent) {
  entry& e = entries_[id];
  entry& p = entries_[parent];
  e.parent = parent;
  e.next_sibling = p.first_child;
  if (p.first_child != none) entries_[p.first_child].previous_sibling = id;
  p.first_child = id;
}

void catalogue::unlink(uint32_t id) {
  entry& e = entries_[id];
  if (e.parent == none) return;
  if (e.next_sibling != none) entries_[e.next_sibling].previous_sibling = e.previous_sibling;
  if (e.previous_sibling != none)
    entries_[e.previous_sibling].next_sibling = e.next_sibling;
  else
    entries_[e.parent].first_child = e.next_sibling;
}

void catalogue::announce(change_kind kind, uint32_t id) {
  const block_record r = record_of(id);
  feed_.add({.kind = kind,
             .key = r.key,
             .parent = r.parent,
             .depth = r.depth,
             .content_digest = r.content_digest,
             .expiry = r.expiry});
}

uint32_t catalogue::add(const block_record& record,
                        traffic_class use,
                        cluster_time now,
                        catalogue_effects& effects) {
  const uint32_t parent = is_head(record.depth) ? none : find(record.parent);
  DEEPINFER_CHECK(is_head(record.depth) || is_parent(parent, record.depth));
  block_record made = record;
  const cluster_time whole_life{end_of_life(use, now)};
  made.expiry = record.expiry == cluster_time{} ? whole_life : std::min(record.expiry, whole_life);
  made.created = made.accessed = now;
  made.classes = mask_of(use);
  const uint32_t id = make_entry(made);
  if (parent != none) {
    link(id, parent);
    raise(parent, made.expiry.count(), made.classes, entries_[id].accessed_s, effects);
  }
  effects.changed.push_back(id);
  announce(change_kind::stored, id);
  return id;
}

void catalogue::touch(uint32_t id,
                      traffic_class use,
                      cluster_time now,
                      catalogue_effects& effects) {
  raise(id, end_of_life(use, now), mask_of(use), seconds(now), effects);
}

void catalogue::prolong(uint32_t id,
                        cluster_time expiry,
                        traffic_class use,
                        cluster_time now,
                        catalogue_effects& effects) {
  const int64_t end = std::min(expiry.count(), end_of_life(use, now));
  raise(id, end, mask_of(use), entries_[id].accessed_s, effects);
}

/// Upwards until an ancestor has all of it: everything above it has, too.
void catalogue::raise(uint32_t id,
                      int64_t expiry_ms,
                      class_mask classes,
                      uint32_t accessed_s,
                      catalogue_effects& effects) {
  for (; id != none; id = entries_[id].parent) {
    entry& e = entries_[id];
    if (e.expiry_ms >= expiry_ms && (e.classes | classes) == e.classes) return;
    lists_of(e).remove(id, entries_);
    e.expiry_ms = std::max(e.expiry_ms, expiry_ms);
    e.classes |= classes;
    e.accessed_s = std::max(e.accessed_s, accessed_s);
    lists_of(e).add(id, entries_);
    effects.changed.push_back(id);
    announce(change_kind::touched, id);
  }
}

void catalogue::move(uint32_t id, const block_location& to, catalogue_effects& effects) {
  entry& e = entries_[id];
  effects.freed.push_back(
      {{e.segment, e.offset_units * location_unit}, e.length, scopes_[e.scope].id});
  e.segment = to.segment;
  e.offset_units = static_cast<uint32_t>(to.offset / location_unit);
  members_[e.segment].push_back(id);
  effects.changed.push_back(id);
}

// ---- looking

uint32_t catalogue::find(const block_key& key) const {
  return table_.find(key, key_at());
}

uint32_t catalogue::committed_prefix(std::span<const block_key> keys, uint32_t first_depth) const {
  const auto there = [this, keys, first_depth](size_t index) {
    const uint32_t id = find(keys[index]);
    return is_committed(id) && entries_[id].depth == first_depth + index;
  };
  // presence is monotone along a chain: 1, 2, 4 ... then bisect
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

block_record catalogue::record_of(uint32_t id) const {
  const entry& e = entries_[id];
  block_record r;
  r.key = e.key;
  if (e.parent != none)
    r.parent = entries_[e.parent].key;
  else if (const auto head = head_parents_.find(id); head != head_parents_.end())
    r.parent = head->second;
  r.scope = scopes_[e.scope].id;
  r.depth = e.depth;
  r.length = e.length;
  r.location = {e.segment, e.offset_units * location_unit};
  r.checksum = e.checksum;
  r.content_digest = e.content_digest;
  r.created = std::chrono::seconds{e.created_s};
  r.accessed = std::chrono::seconds{e.accessed_s};
  r.expiry = cluster_time{e.expiry_ms};
  r.writer = writers_[e.writer];
  r.state = e.state;
  r.classes = e.classes;
  return r;
}

uint32_t catalogue::next_committed(uint32_t from) const {
  for (; from < entries_.end(); ++from)
    if (entries_[from].state == block_state::committed) return from;
  return none;
}

snapshot_page catalogue::snapshot(uint64_t cursor, size_t limit) const {
  snapshot_page page;
  page.position = feed_.position();
  uint32_t id = cursor > entries_.end() ? none : next_committed(static_cast<uint32_t>(cursor));
  for (; id != none && limit > 0; id = next_committed(id + 1), --limit) {
    if (entries_.end() - id > ahead) entries_.prefetch(entries_[id + ahead].parent);
    const block_record r = record_of(id);
    page.blocks.push_back({.sequence = page.position.sequence,
                           .kind = change_kind::stored,
                           .key = r.key,
                           .parent = r.parent,
                           .depth = r.depth,
                           .content_digest = r.content_digest,
                           .expiry = r.expiry});
  }
  page.next_cursor = id == none ? 0 : id;
  return page;
}

std::vector<uint32_t> catalogue::entries_in(uint32_t segment) const {
  const auto found = members_.find(segment);
  if (found == members_.end()) return {};
  std::vector<uint32_t> ids;
  for (const uint32_t id : found->second)
    if (entries_[id].state == block_state::committed && entries_[id].segment == segment)
      ids.push_back(id);
  std::sort(ids.begin(), ids.end(), [this](uint32_t a, uint32_t b) {
    return std::pair(entries_[a].offset_units, a) < std::pair(entries_[b].offset_units, b);
  });
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

size_t catalogue::memory_bytes() const {
  size_t bytes = entries_.memory_bytes() + table_.memory_bytes();
  for (const auto& [segment, ids] : members_) bytes += 64 + ids.capacity() * sizeof(uint32_t);
  return bytes;
}

}  // namespace deepinfer::storage
