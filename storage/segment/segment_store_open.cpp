// Opening a store: what an earlier life left, whole or not.
#include "storage/segment/segment_format.hpp"
#include "storage/segment/segment_store.hpp"

#include <algorithm>
#include <set>

namespace deepinfer::storage {

segment_store::segment_store(const store_config& config,
                             std::unique_ptr<file_layer> files,
                             std::unique_ptr<metadata_journal> journal)
    : config_(config),
      files_(std::move(files)),
      journal_(std::move(journal)),
      catalogue_(config),
      clock_(config.clock_jump, config.longest_downtime) {}

result<std::unique_ptr<block_store>> segment_store::open(
    const store_config& config,
    std::unique_ptr<file_layer> files,
    std::unique_ptr<metadata_journal> journal) {
  if (config.segment_bytes < segment_header_bytes + location_unit ||
      config.capacity_bytes < config.segment_bytes || config.low_mark > config.high_mark)
    return failure{error_code::invalid_argument,
                   "a store needs room for a segment, a segment room for a block, and a low mark "
                   "that is not above the high one"};
  std::unique_ptr<segment_store> made{
      new segment_store(config, std::move(files), std::move(journal))};
  if (auto loaded = made->load(); !loaded) return loaded.error();
  return std::unique_ptr<block_store>{std::move(made)};
}

result<void> segment_store::load() {
  if (auto files = load_files(); !files) return files;
  std::vector<block_key> stray_keys;
  std::unordered_map<uint32_t, uint64_t> ends;  // of each segment's last block
  auto found = journal_->load([&](const block_record& record) {
    segment_table::segment* home = segments_.find(record.location.segment);
    const uint64_t end = record.location.offset + stride_of(record.length);
    if (record.state != block_state::committed || home == nullptr || end > home->bytes) {
      stray_keys.push_back(record.key);
      return;
    }
    home->live += stride_of(record.length);
    uint64_t& last = ends[record.location.segment];
    last = std::max(last, end);
    catalogue_.load(record);
  });
  if (!found) return found.error();
  identity_ = found->identity;
  for (const auto& [number, segment] : segments_.all())
    identity_.next_segment = std::max(identity_.next_segment, number + 1);
  for (const writer_ref& writer : found->writers) tickets_.restore(writer);
  for (const uint32_t number : found->rewrite_due)
    if (auto* segment = segments_.find(number)) segment->rewrite_due = true;
  erased_due_ = !found->rewrite_due.empty();
  clock_.resume(identity_.last_time);

  journal_batch batch;
  const catalogue_effects dropped = catalogue_.finish_loading();
  for (const freed_space& space : dropped.freed)
    segments_.free(space.location, stride_of(space.length), space.scope);
  batch.erase = dropped.erased;
  batch.erase.insert(batch.erase.end(), stray_keys.begin(), stray_keys.end());
  lost_at_open_ = batch.erase.size() + found->unreadable;
  trim_files(ends);
  segments_.mark_holes();

  // A new life is on the device before anybody hears of it: leases of older ones are void (KV-28).
  identity_.epoch = std::max(identity_.epoch + 1, config_.least_epoch);
  batch.identity = identity_;
  if (auto done = journal_->apply(batch, journal_wait::device); !done) return done;
  catalogue_.feed().start(identity_.epoch);
  catalogue_.feed().publish();
  drop_empty_segments();
  for (const scope_id scope : found->purge_due)  // a crash came between two parts
    for (uint64_t cursor = 0;;) {
      const auto part = purge_from(scope, cursor);
      if (!part) return part.error();
      cursor = part->next_cursor;
      if (cursor == 0) break;
    }
  return {};
}

/// Every segment found is sealed: an interrupted writer's bytes are never written over.
result<void> segment_store::load_files() {
  auto files = files_->list();
  if (!files) return files.error();
  for (const listed_file& file : *files) {
    const uint32_t number = segment_of_name(file.name);
    if (number == 0) continue;
    auto opened = files_->open(file.name);
    if (!opened) return opened.error();
    // a file cut short by a crash still holds the blocks in front of the cut; one that was written
    // when its writer died is longer than its blocks, which `trim_files` finds out
    const uint64_t units = (file.bytes + location_unit - 1) / location_unit;
    segments_.add(number, {.file = *opened, .bytes = std::max<uint64_t>(1, units) * location_unit});
  }
  return {};
}

/// Behind the last block of a file there is only space that was set aside, or bytes that no record
/// names.
void segment_store::trim_files(const std::unordered_map<uint32_t, uint64_t>& ends) {
  for (const auto& [number, end] : ends)
    if (segments_.find(number)->bytes > end && files_->trim(segment_name(number), end))
      segments_.shrink(number, end);
}

std::optional<std::string> segment_store::broken_rule() const {
  std::shared_lock state{state_};
  if (auto broken = catalogue_.broken_rule()) return broken;
  std::unordered_map<uint32_t, uint64_t> live;
  for (uint32_t id = catalogue_.next_committed(0); id != catalogue::none;
       id = catalogue_.next_committed(id + 1))
    live[catalogue_.at(id).segment] += stride_of(catalogue_.at(id).length);
  for (const auto& [number, bytes] : live)
    if (!segments_.all().contains(number)) return "a committed block in a segment that is gone";
  if (catalogue_.doomed() == 0)
    for (const auto& [number, segment] : segments_.all())
      if (segment.live != live[number]) return "a segment counts other live bytes than it has";
  return std::nullopt;
}

store_stats segment_store::stats() const {
  std::shared_lock state{state_};
  store_stats s;
  s.blocks = catalogue_.committed();
  s.doomed = catalogue_.doomed();
  s.live_bytes = catalogue_.live_bytes();
  s.scopes = catalogue_.scopes();
  s.reserved_bytes = tickets_.reserved_bytes();
  s.reservations = tickets_.size();
  s.file_bytes = segments_.file_bytes();
  s.segments = segments_.size();
  s.capacity_bytes = config_.capacity_bytes;
  s.leases = leases_.size();
  s.stored = count_.stored;
  s.refreshed = count_.refreshed;
  s.touched = count_.touched;
  s.diverged = count_.diverged;
  s.mismatched = count_.mismatched;
  s.over_quota = count_.over_quota;
  s.refused_full = count_.refused_full;
  s.hash_collisions = count_.hash_collisions;
  s.read_blocks = count_.read_blocks;
  s.read_bytes = count_.read_bytes;
  s.written_bytes = count_.written_bytes;
  s.read_failures = count_.read_failures;
  s.write_failures = count_.write_failures;
  s.quarantined = count_.quarantined;
  s.expired = count_.expired;
  s.evicted = count_.evicted;
  s.purged = count_.purged;
  s.given_away = count_.given_away;
  s.compacted_bytes = count_.compacted_bytes;
  s.scrubbed_bytes = count_.scrubbed_bytes;
  s.scrub_passes = count_.scrub_passes;
  s.evicted_below_floor = catalogue_.evicted_below_floor();
  s.youngest_eviction_ms = catalogue_.youngest_eviction_ms();
  s.last_eviction_ms = catalogue_.last_eviction_ms();
  s.lost_at_open = lost_at_open_;
  s.clock_frozen = clock_.frozen();
  s.broken = broken_;
  return s;
}

change_batch segment_store::changes_after(const feed_position& position, size_t limit) {
  std::shared_lock state{state_};
  return catalogue_.feed().after(position, limit);
}

snapshot_page segment_store::snapshot(uint64_t cursor, size_t limit) {
  std::shared_lock state{state_};
  return catalogue_.snapshot(cursor, limit);
}

}  // namespace deepinfer::storage
