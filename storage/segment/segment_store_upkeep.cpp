// Rewriting segments and scrubbing.
#include "storage/block/block_checksum.hpp"
#include "storage/segment/segment_format.hpp"
#include "storage/segment/segment_store.hpp"

#include <algorithm>
#include <set>

namespace deepinfer::storage {

namespace {

constexpr size_t blocks_at_once = 32;       // of upkeep: a few MB of memory
constexpr uint64_t evicted_at_once = 8192;  // blocks, for one write: bounds how long it holds locks

}  // namespace

/// `state_` is held.
bool segment_store::is_full_for(uint64_t bytes) const {
  return segments_.file_bytes() + tickets_.reserved_bytes() + bytes > config_.capacity_bytes;
}

uint64_t segment_store::file_bytes() const {
  std::shared_lock state{state_};
  return segments_.file_bytes();
}

/// The segment to rewrite next. Without pressure: less than the set share is live. Under pressure
/// (which a write that finds no room is) any whose share is below that of a store at its low mark;
/// if only the open one is left, it is closed.
std::optional<uint32_t> segment_store::choose_rewrite(uint64_t wanted_bytes) {
  std::unique_lock state{state_};
  const bool pressed = static_cast<double>(segments_.file_bytes()) >=
                           config_.high_mark * static_cast<double>(config_.capacity_bytes) ||
                       (wanted_bytes > 0 && is_full_for(wanted_bytes));
  const double share = pressed
                           ? std::max(config_.compact_below, config_.low_mark / config_.high_mark)
                           : config_.compact_below;
  if (const auto found = segments_.worst(share)) return found;
  auto* active = segments_.find(active_);
  if (!pressed || active == nullptr) return std::nullopt;
  active->sealed = true;
  active_ = 0;
  return segments_.worst(share);
}

result<void> segment_store::rewrite_some(uint64_t budget_bytes, uint64_t wanted_bytes) {
  if (wanted_bytes > 0 && erasing_) return {};  // it may take long: no write waits for it
  std::lock_guard alone{rewriting_};
  result<void> erased;
  if (wanted_bytes == 0) erased = erase_purged();
  std::set<uint32_t> tried;
  for (uint64_t used = 0; used < budget_bytes;) {
    if (wanted_bytes > 0) {
      std::shared_lock state{state_};
      if (!is_full_for(wanted_bytes)) break;
    }
    const auto victim = choose_rewrite(wanted_bytes);
    if (!victim || !tried.insert(*victim).second) break;
    {
      std::shared_lock state{state_};
      const auto found = segments_.all().find(*victim);
      if (found != segments_.all().end()) used += found->second.live;
    }
    used += location_unit;
    if (auto done = rewrite(*victim); !done) return done;
  }
  return erased;  // space is won back all the same: erasing needs some
}

/// Purged contents leave the journal's files, one part with each call. What is purged meanwhile is
/// for another round, so that rounds end. What says that it is due outlives a crash.
result<void> segment_store::erase_purged() {
  if (erase_cursor_ == 0) {
    std::lock_guard order{order_};  // what was erased is in the journal, or waits for it
    if (!unwritten_.empty() || !erased_due_.exchange(false)) return {};
  }
  erasing_ = true;
  const auto next = journal_->drop_erased(erase_cursor_);
  erasing_ = false;
  if (!next) {
    erased_due_ = true;  // in a round that went on it goes on, too
    return next.error();
  }
  erase_cursor_ = *next;
  if (erase_cursor_ != 0) return {};
  return change([this](catalogue_effects&, journal_batch& batch) {
    if (!erased_due_) batch.rewrite_done.push_back(erased_mark);  // else purged again meanwhile
  });
}

result<uint64_t> segment_store::compact(uint64_t budget_bytes, const clock_reading& now) {
  observe(now);
  const uint64_t before = file_bytes();
  const auto finished = finish_purges();
  if (auto done = rewrite_some(budget_bytes, 0); !done) return done.error();
  if (!finished) return finished.error();
  return before - std::min(before, file_bytes());
}

/// Down to the low mark when that is more, so that the next writes find room, too.
result<uint64_t> segment_store::make_room(uint64_t bytes, const clock_reading& now) {
  observe(now);
  const uint64_t before = file_bytes();
  const auto low =
      static_cast<uint64_t>(config_.low_mark * static_cast<double>(config_.capacity_bytes));
  const uint64_t goal =
      std::min(low, config_.capacity_bytes - std::min(config_.capacity_bytes, bytes));
  uint64_t removed = 0;
  auto done = change([&](catalogue_effects& effects, journal_batch&) {
    if (!is_full_for(bytes)) return;
    const uint64_t live = catalogue_.live_bytes() + tickets_.reserved_bytes();
    if (live > goal)
      removed = catalogue_.evict(live - goal, evicted_at_once, clock_.now(), effects);
  });
  if (!done) return done.error();
  count_.evicted += removed;
  if (auto rewritten = rewrite_some(config_.capacity_bytes / 4, bytes); !rewritten)
    return rewritten.error();
  return before - std::min(before, file_bytes());
}

result<void> segment_store::rewrite(uint32_t segment) {
  std::vector<found_block> blocks;
  {
    std::shared_lock state{state_};
    for (const uint32_t entry : catalogue_.entries_in(segment)) blocks.push_back(locate(entry));
  }
  for (size_t at = 0; at < blocks.size(); at += blocks_at_once) {
    const size_t count = std::min(blocks_at_once, blocks.size() - at);
    if (auto moved = move_blocks(std::span{blocks}.subspan(at, count)); !moved) return moved;
  }
  return change([](catalogue_effects&, journal_batch&) {});  // lets go of it if it is empty now
}

/// Space in the active segment for the blocks that were read well.
std::vector<segment_store::block_write> segment_store::place_moves(
    std::span<const found_block> blocks, std::span<const read_status> statuses) {
  std::vector<block_write> writes;
  std::lock_guard together{append_};
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (statuses[i] != read_status::ok) continue;
    // may go over the capacity for a while: it is what brings the store back under it
    auto place =
        take_space(stride_of(blocks[i].length), config_.capacity_bytes + 2 * config_.segment_bytes);
    if (!place) break;
    std::shared_lock state{state_};
    writes.push_back({.item = i,
                      .place = *place,
                      .file = segments_.find(place->segment)->file,
                      .tail = encode_tail({blocks[i].key, blocks[i].length, blocks[i].checksum})});
  }
  return writes;
}

/// Copies verified bytes to the active segment, then has the journal name the new place. A crash in
/// between leaves the old place in charge.
result<void> segment_store::move_blocks(std::span<const found_block> blocks) {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::span<std::byte>> into;
  for (const found_block& block : blocks) into.push_back(bytes.emplace_back(block.length));
  std::vector<read_status> statuses(blocks.size());
  read_blocks(blocks, into, statuses);

  std::vector<found_block> bad;
  for (size_t i = 0; i < blocks.size(); ++i)
    if (statuses[i] == read_status::bad) bad.push_back(blocks[i]);
  std::vector<block_write> writes = place_moves(blocks, statuses);
  std::set<uint32_t> written_to;
  for (const block_write& w : writes) written_to.insert(w.place.segment);
  std::vector<file_operation> operations;
  for (block_write& w : writes)
    operations.push_back({.what = file_operation::kind::write,
                          .file = w.file.get(),
                          .offset = w.place.offset,
                          .head = into[w.item],
                          .tail = w.tail});
  files_->run(operations);
  {
    std::unique_lock state{state_};
    for (const uint32_t number : written_to) segments_.find(number)->unsynced = true;
  }
  const std::vector<uint32_t> targets(written_to.begin(), written_to.end());
  bool safe = true;
  if (config_.durable != durability::process) safe = static_cast<bool>(sync_segments(targets));

  auto moved = change([&](catalogue_effects& effects, journal_batch& batch) {
    for (size_t k = 0; k < writes.size(); ++k) {
      const found_block& from = blocks[writes[k].item];
      const uint64_t stride = stride_of(from.length);
      const bool there = catalogue_.is_committed(from.entry) &&
                         catalogue_.at(from.entry).key == from.key &&
                         locate(from.entry).location == from.location;
      const bool good = there && safe && operations[k].result == file_operation::outcome::done;
      segments_.settle(writes[k].place, stride, good ? stride : 0);
      if (!there)
        rewrite_soon(writes[k].place.segment, batch);  // it may have been purged meanwhile
      if (there && !good) segments_.leave(writes[k].place.segment, catalogue_.scope_of(from.entry));
      if (!good) continue;
      catalogue_.move(from.entry, writes[k].place, effects);
      count_.compacted_bytes += from.length;
    }
  });
  quarantine(bad);
  return moved;
}

result<uint64_t> segment_store::scrub(uint64_t budget_bytes, const clock_reading& now) {
  observe(now);
  uint64_t read = 0;
  while (read < budget_bytes) {
    std::vector<found_block> blocks;
    {
      std::unique_lock state{state_};
      while (blocks.size() < blocks_at_once && read < budget_bytes) {
        const uint32_t entry = catalogue_.next_committed(scrub_next_);
        if (entry == catalogue::none) break;
        scrub_next_ = entry + 1;
        blocks.push_back(locate(entry));
        read += blocks.back().length;
      }
      if (blocks.empty()) {
        scrub_next_ = 0;
        ++count_.scrub_passes;
        break;
      }
    }
    std::vector<std::vector<std::byte>> bytes;
    std::vector<std::span<std::byte>> into;
    for (const found_block& block : blocks) into.push_back(bytes.emplace_back(block.length));
    std::vector<read_status> statuses(blocks.size());
    read_blocks(blocks, into, statuses);
    std::vector<found_block> bad;
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (statuses[i] == read_status::bad) bad.push_back(blocks[i]);
      if (statuses[i] == read_status::ok) count_.scrubbed_bytes += blocks[i].length;
    }
    quarantine(bad);
  }
  return read;
}

}  // namespace deepinfer::storage
