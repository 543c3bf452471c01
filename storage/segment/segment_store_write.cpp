// Reserve, write, commit.
#include "storage/block/block_checksum.hpp"
#include "storage/segment/segment_format.hpp"
#include "storage/segment/segment_store.hpp"

#include <algorithm>
#include <set>

namespace deepinfer::storage {

result<void> segment_store::check_items(std::span<const reserve_item> items) const {
  if (items.size() > config_.max_batch)
    return failure{error_code::too_large, "more than " + std::to_string(config_.max_batch) +
                                              " blocks in one call: split it (max_batch)"};
  for (const reserve_item& item : items) {
    if (item.length == 0 || item.length > max_block_bytes ||
        stride_of(item.length) + segment_header_bytes > config_.segment_bytes)
      return failure{error_code::too_large,
                     "a block of " + std::to_string(item.length) +
                         " bytes does not fit a file of blocks: raise kvstore.segment_bytes, and "
                         "kvstore.capacity to eight times of that"};
    if (item.content.size() > max_content_bytes)
      return failure{error_code::too_large, "a block's content is over its limit"};
    if (key_of(item.parent, item.content) != item.key)
      return failure{error_code::invalid_argument, "a key is not that of its parent and content"};
  }
  return {};
}

result<std::vector<reservation>> segment_store::reserve(const write_context& context,
                                                        std::span<const reserve_item> items) {
  if (auto checked = check_items(items); !checked) return checked.error();
  const cluster_time now = observe(context.now);
  std::vector<reservation> answers;
  bool new_life = false;
  {
    std::unique_lock state{state_};
    std::vector<ticket> ended;
    new_life = !tickets_.knows(context.writer);
    if (!tickets_.admit(context.writer, ended))
      return failure{error_code::stale_epoch, "a newer life of this writer is known"};
    for (const ticket& gone : ended) let_go(gone);
    for (const reserve_item& item : items) answers.push_back(reserve_one(context, item, now));
  }
  if (!new_life) return answers;
  // the fence outlives this life of the store
  auto kept = change([&context](catalogue_effects&, journal_batch& batch) {
    batch.writers.push_back(context.writer);
  });
  if (!kept) return kept.error();
  return answers;
}

reservation segment_store::reserve_one(const write_context& context,
                                       const reserve_item& item,
                                       cluster_time now) {
  if (purging_.contains(context.scope)) return {reserve_outcome::busy};
  const uint64_t bytes = stride_of(item.length);
  const uint32_t there = catalogue_.find(item.key);
  const bool present = catalogue_.is_committed(there);
  if (there != catalogue::none && !present) return {reserve_outcome::busy};
  if (!present && !catalogue_.is_head(item.depth) &&
      !catalogue_.is_parent(catalogue_.find(item.parent), item.depth) &&
      !tickets_.reserved(item.parent))
    return {reserve_outcome::no_parent};
  if (tickets_.size() >= config_.max_reservations) return {reserve_outcome::busy};
  if (!present) {
    if (tickets_.reserved_bytes() + bytes > config_.max_reserved_bytes)
      return {reserve_outcome::busy};
    if (!catalogue_.fits_quota(context.scope, bytes)) {
      ++count_.over_quota;
      return {reserve_outcome::over_quota};
    }
    if (is_full_for(bytes)) {
      ++count_.refused_full;
      return {reserve_outcome::full};
    }
    catalogue_.charge(context.scope, static_cast<int64_t>(bytes));
  }
  ticket made;
  made.record.key = item.key;
  made.record.parent = item.parent;
  made.record.scope = context.scope;
  made.record.depth = item.depth;
  made.record.length = item.length;
  made.record.content_digest = content_digest(item.content);
  made.record.created = now;
  made.record.expiry = item.expiry;
  made.record.writer = context.writer;
  made.record.state = block_state::committed;
  made.use = context.use;
  made.at = present ? ticket::stage::confirming : ticket::stage::granted;
  made.expires = context.now.steady + config_.reservation_ttl;
  if (!present) made.content.assign(item.content.begin(), item.content.end());
  return {present ? reserve_outcome::present : reserve_outcome::granted,
          tickets_.add(std::move(made))};
}

/// A ticket's share of its scope and of its segment.
/// What it held: its share of its scope's quota, and its place in a file.
void segment_store::give_back(const ticket& ended) {
  if (ended.at == ticket::stage::confirming) return;
  const uint64_t bytes = stride_of(ended.record.length);
  catalogue_.charge(ended.record.scope, -static_cast<int64_t>(bytes));
  if (ended.record.location.segment != 0) segments_.settle(ended.record.location, bytes, 0);
}

/// Never to be a block: what was written of it stays where it lies.
void segment_store::let_go(const ticket& gone) {
  give_back(gone);
  segments_.leave(gone.record.location.segment, gone.record.scope);
}

void segment_store::abandon(std::span<const ticket_id> tickets) {
  std::unique_lock state{state_};
  for (const ticket_id id : tickets)
    if (tickets_.holds(id)) let_go(tickets_.take(id));
}

result<void> segment_store::fence(const writer_ref& writer) {
  {
    std::unique_lock state{state_};
    std::vector<ticket> ended;
    if (!tickets_.admit(writer, ended)) return {};
    for (const ticket& gone : ended) let_go(gone);
  }
  return change(
      [&writer](catalogue_effects&, journal_batch& batch) { batch.writers.push_back(writer); });
}

// ---- space

/// A new active segment with space taken in it.
result<block_location> segment_store::start_segment(uint64_t bytes) {
  uint32_t number = 0, old_number = 0;
  uint64_t old_bytes = 0;
  {
    std::unique_lock state{state_};
    if (auto* old = segments_.find(active_)) {
      old->sealed = true;
      old_number = active_;
      old_bytes = old->bytes;
    }
    active_ = 0;
    number = identity_.next_segment++;
    identity_changed_ = true;
  }
  // space that was set aside and not used; if it cannot be given back now, the next life does it
  if (old_number != 0) static_cast<void>(files_->trim(segment_name(old_number), old_bytes));
  auto made = files_->create(segment_name(number), config_.segment_bytes);
  if (!made) return made.error();
  auto header = encode_segment_header({number});
  file_operation put{.what = file_operation::kind::write, .file = made->get(), .head = header};
  files_->run({&put, 1});
  if (put.result != file_operation::outcome::done) {
    static_cast<void>(files_->remove(segment_name(number)));
    return failure{put.result == file_operation::outcome::full ? error_code::no_capacity
                                                               : error_code::unreachable,
                   "the header of a new segment could not be written"};
  }
  if (config_.durable != durability::process)
    if (auto synced = files_->sync_names(); !synced) return synced.error();
  std::unique_lock state{state_};
  segments_.add(number,
                {.file = *made, .bytes = segment_header_bytes, .sealed = false, .unsynced = true});
  active_ = number;
  return segments_.take(number, bytes);
}

/// Space in the active segment, or in a new one; `append_` is held.
result<block_location> segment_store::take_space(uint64_t bytes, uint64_t limit) {
  {
    std::unique_lock state{state_};
    if (segments_.file_bytes() + bytes > limit)
      return failure{error_code::no_capacity, "the store is full"};
    auto* active = segments_.find(active_);
    if (active != nullptr && active->bytes + bytes <= config_.segment_bytes)
      return segments_.take(active_, bytes);
  }
  return start_segment(bytes);
}

result<void> segment_store::sync_segments(std::span<const uint32_t> segments) {
  std::lock_guard one_at_a_time{sync_};  // and who finds a segment synced has waited for it
  for (const uint32_t number : segments) {
    std::shared_ptr<stored_file> file;
    {
      std::unique_lock state{state_};
      auto* segment = segments_.find(number);
      if (segment == nullptr || !segment->unsynced) continue;
      segment->unsynced = false;  // before the sync: what is written during it asks again
      file = segment->file;
    }
    if (auto synced = files_->sync(*file); !synced) {
      std::unique_lock state{state_};
      if (auto* segment = segments_.find(number)) segment->unsynced = true;
      return synced;
    }
  }
  return {};
}

// ---- bytes

std::optional<segment_store::block_write> segment_store::place_one(const write_item& item,
                                                                   write_outcome& answer,
                                                                   const clock_reading& now) {
  {
    std::unique_lock state{state_};
    const ticket* t = tickets_.find(item.ticket, now);
    if (t == nullptr || t->at != ticket::stage::granted) return std::nullopt;
    if (item.bytes.size() != t->record.length) {
      answer = write_outcome::wrong_length;
      return std::nullopt;
    }
  }
  const uint64_t bytes = stride_of(static_cast<uint32_t>(item.bytes.size()));
  auto place = take_space(bytes, config_.capacity_bytes);
  std::unique_lock state{state_};
  ticket* t = tickets_.find(item.ticket, now);
  if (!place) {
    const bool full = place.error().code == error_code::no_capacity;
    answer = full ? write_outcome::full : write_outcome::failed;
    if (t != nullptr) let_go(tickets_.take(item.ticket));
    return std::nullopt;
  }
  if (t == nullptr) {  // its writer's life ended meanwhile
    segments_.settle(*place, bytes, 0);
    return std::nullopt;
  }
  t->at = ticket::stage::writing;
  t->record.location = *place;
  return block_write{.id = item.ticket,
                     .key = t->record.key,
                     .place = *place,
                     .file = segments_.find(place->segment)->file};
}

write_outcome segment_store::end_write(const block_write& done, file_operation::outcome result) {
  std::unique_lock state{state_};
  if (auto* segment = segments_.find(done.place.segment)) segment->unsynced = true;
  if (!tickets_.holds(done.id)) return write_outcome::stale;
  if (result != file_operation::outcome::done) {
    ++count_.write_failures;
    let_go(tickets_.take(done.id));
    return result == file_operation::outcome::full ? write_outcome::full : write_outcome::failed;
  }
  ticket& t = tickets_.at(done.id);
  t.at = ticket::stage::written;
  t.record.checksum = done.checksum;
  count_.written_bytes += t.record.length;
  return write_outcome::written;
}

result<std::vector<write_outcome>> segment_store::write(std::span<const write_item> items,
                                                        const clock_reading& now) {
  if (items.size() > config_.max_batch)
    return failure{error_code::too_large, "too many blocks in one call: split it (max_batch)"};
  observe(now);
  std::vector<write_outcome> answers(items.size(), write_outcome::stale);
  std::vector<block_write> writes;
  {
    std::lock_guard together{append_};  // blocks of one call lie behind one another
    for (size_t i = 0; i < items.size(); ++i)
      if (auto placed = place_one(items[i], answers[i], now)) {
        placed->item = i;
        writes.push_back(std::move(*placed));
      }
  }
  std::vector<file_operation> operations;
  for (const block_write& w : writes) {
    const auto bytes = items[w.item].bytes;
    operations.push_back({.what = file_operation::kind::write,
                          .file = w.file.get(),
                          .offset = w.place.offset,
                          .head = {const_cast<std::byte*>(bytes.data()), bytes.size()}});
  }
  // a checksum is computed while the blocks in front are on their way
  const auto add_footer = [&](file_operation& operation) {
    block_write& w = writes[static_cast<size_t>(&operation - operations.data())];
    w.checksum = block_checksum(w.key, items[w.item].bytes);
    w.tail = encode_tail({w.key, static_cast<uint32_t>(operation.head.size()), w.checksum});
    operation.tail = w.tail;
  };
  files_->run(operations, {.begins = add_footer});
  for (size_t i = 0; i < writes.size(); ++i)
    answers[writes[i].item] = end_write(writes[i], operations[i].result);
  return answers;
}

// ---- the index

commit_outcome segment_store::commit_one(ticket done,
                                         uint64_t checksum,
                                         cluster_time now,
                                         catalogue_effects& effects,
                                         journal_batch& batch) {
  const uint32_t there = catalogue_.find(done.record.key);
  const bool written = done.at == ticket::stage::written;
  if (written && done.record.checksum != checksum) {
    ++count_.mismatched;
    return commit_outcome::mismatch;
  }
  if (catalogue_.is_committed(there)) {
    if (catalogue_.at(there).checksum != checksum) {
      ++count_.diverged;
      return commit_outcome::diverged;
    }
    ++count_.refreshed;
    // one that another store had is the same use of the same block, not a new one
    if (done.record.expiry == cluster_time{})
      catalogue_.touch(there, done.use, now, effects);
    else
      catalogue_.prolong(there, done.record.expiry, done.use, now, effects);
    return commit_outcome::refreshed;
  }
  if (!written || there != catalogue::none) return commit_outcome::stale;
  if (!catalogue_.is_head(done.record.depth)) {
    const uint32_t parent = catalogue_.find(done.record.parent);
    if (!catalogue_.is_parent(parent, done.record.depth) ||
        catalogue_.scope_of(parent) != done.record.scope)
      return commit_outcome::no_parent;
  }
  // the caller let the ticket go; what was pending becomes live
  segments_.find(done.record.location.segment)->live += stride_of(done.record.length);
  catalogue_.add(done.record, done.use, now, effects);
  batch.contents.emplace_back(done.record.key, std::move(done.content));
  ++count_.stored;
  return commit_outcome::stored;
}

result<std::vector<commit_outcome>> segment_store::commit(std::span<const commit_item> items,
                                                          const clock_reading& now) {
  if (items.size() > config_.max_batch)
    return failure{error_code::too_large, "too many blocks in one call: split it (max_batch)"};
  const cluster_time time = observe(now);
  if (config_.durable != durability::process) {
    std::set<uint32_t> touched;
    {
      std::unique_lock state{state_};
      for (const commit_item& item : items)
        if (const ticket* t = tickets_.find(item.ticket, now))
          if (t->at == ticket::stage::written) touched.insert(t->record.location.segment);
    }
    const std::vector<uint32_t> segments(touched.begin(), touched.end());
    if (auto synced = sync_segments(segments); !synced) return synced.error();
  }
  std::vector<commit_outcome> answers(items.size(), commit_outcome::stale);
  auto done = change([&](catalogue_effects& effects, journal_batch& batch) {
    for (size_t i = 0; i < items.size(); ++i) {
      const ticket* t = tickets_.find(items[i].ticket, now);
      if (t == nullptr || t->at == ticket::stage::writing) continue;
      ticket taken = tickets_.take(items[i].ticket);
      give_back(taken);
      const auto [segment, scope] = std::pair{taken.record.location.segment, taken.record.scope};
      answers[i] = commit_one(std::move(taken), items[i].checksum, time, effects, batch);
      if (answers[i] != commit_outcome::stored) segments_.leave(segment, scope);
    }
  });
  if (!done) return done.error();
  return answers;
}

}  // namespace deepinfer::storage
