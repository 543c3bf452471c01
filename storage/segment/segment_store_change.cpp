// How a change becomes durable, and the changes that are not writes or reads of bytes.
#include "storage/segment/segment_format.hpp"
#include "storage/segment/segment_store.hpp"

#include <algorithm>

namespace deepinfer::storage {

namespace {

/// How far the stored time may be behind: what a restart can take for a jump of the clock.
constexpr std::chrono::minutes time_kept_every{1};

}  // namespace

cluster_time segment_store::observe(const clock_reading& now) {
  std::unique_lock state{state_};
  clock_.observe(now);
  return clock_.now();
}

/// Effects of the catalogue, as records to write and space to give back; `state_` is held.
void segment_store::collect(const catalogue_effects& effects, journal_batch& batch) {
  std::vector<uint32_t> changed = effects.changed;
  std::sort(changed.begin(), changed.end());
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  for (const uint32_t id : changed)
    if (catalogue_.is_committed(id)) batch.put.push_back(catalogue_.record_of(id));
  batch.erase.insert(batch.erase.end(), effects.erased.begin(), effects.erased.end());
  for (const freed_space& space : effects.freed)
    segments_.free(space.location, stride_of(space.length), space.scope);
  if (identity_changed_ || clock_.now() - identity_.last_time >= time_kept_every) {
    identity_changed_ = false;
    identity_.last_time = clock_.now();
    batch.identity = identity_;
  }
}

/// Steps that the journal refused stay in front of the next ones: memory has them already, and all
/// of them may be applied twice. `order_` is held, and no step is made while one waits, so there
/// are few.
result<void> segment_store::persist(journal_batch batch) {
  if (!batch.empty()) unwritten_.push_back(std::move(batch));
  const auto wait =
      config_.durable == durability::full ? journal_wait::device : journal_wait::kernel;
  while (!unwritten_.empty()) {
    if (auto done = journal_->apply(unwritten_.front(), wait); !done) {
      broken_ = true;
      return done;
    }
    unwritten_.pop_front();
  }
  broken_ = false;
  std::unique_lock state{state_};
  catalogue_.feed().publish();
  return {};
}

result<void> segment_store::change(const changing& step) {
  std::lock_guard order{order_};
  if (broken_ && !persist({}))
    return failure{error_code::unreachable,
                   "the journal refuses writes: reads go on, writes when it takes them again"};
  journal_batch batch;
  {
    std::unique_lock state{state_};
    catalogue_effects effects;
    step(effects, batch);
    collect(effects, batch);
  }
  if (auto done = persist(std::move(batch)); !done) return done;
  drop_empty_segments();
  return {};
}

/// After the journal has forgotten all their blocks; `order_` is held or nobody else is there.
void segment_store::drop_empty_segments() {
  for (;;) {
    std::optional<uint32_t> number;
    journal_batch batch;
    {
      std::unique_lock state{state_};
      number = segments_.empty_one();
      if (!number) return;
      if (segments_.find(*number)->rewrite_due) batch.rewrite_done.push_back(*number);
      segments_.erase(*number);
      catalogue_.forget_segment(*number);
    }
    // a file that cannot be removed now is found and removed by the next life
    static_cast<void>(files_->remove(segment_name(*number)));
    if (!persist(std::move(batch))) return;
  }
}

// ---- leases and refreshes

bool segment_store::valid(const lease_ref& ref, const clock_reading& now) const {
  if (ref == lease_ref{}) return true;
  if (ref.epoch != identity_.epoch) return false;
  const auto found = leases_.find(ref.id);
  return found != leases_.end() && found->second.expires > now.steady;
}

result<void> segment_store::renew(const lease_ref& ref, const clock_reading& now) {
  std::unique_lock state{state_};
  if (ref.epoch != identity_.epoch)
    return failure{error_code::stale_epoch, "a lease of an earlier life of the store"};
  if (ref == lease_ref{} || !valid(ref, now))
    return failure{error_code::not_found, "the lease has ended"};
  leases_.at(ref.id).expires = now.steady + config_.lease_ttl;
  return {};
}

result<void> segment_store::release(const lease_ref& ref,
                                    const lease_use& use,
                                    const clock_reading& now) {
  observe(now);
  {
    std::shared_lock state{state_};
    if (ref.epoch != identity_.epoch)
      return failure{error_code::stale_epoch, "a lease of an earlier life of the store"};
    if (!leases_.contains(ref.id)) return failure{error_code::not_found, "the lease has ended"};
  }
  return change([&](catalogue_effects& effects, journal_batch&) {
    const auto found = leases_.find(ref.id);
    if (found == leases_.end()) return;
    const uint32_t entry = found->second.entry;
    leases_.erase(found);
    if (use.kind == use_kind::used && catalogue_.is_committed(entry)) {
      ++count_.touched;
      catalogue_.touch(entry, use.traffic, clock_.now(), effects);
    }
    catalogue_.unpin(entry, effects);
  });
}

result<void> segment_store::touch(const block_key& last,
                                  traffic_class use,
                                  const clock_reading& now) {
  observe(now);
  bool found = false;
  auto done = change([&](catalogue_effects& effects, journal_batch&) {
    const uint32_t entry = catalogue_.find(last);
    found = catalogue_.is_committed(entry);
    if (!found) return;
    ++count_.touched;
    catalogue_.touch(entry, use, clock_.now(), effects);
  });
  if (!done) return done;
  if (!found) return failure{error_code::not_found, "no such block"};
  return {};
}

// ---- time and space

result<uint64_t> segment_store::expire(const clock_reading& now, uint64_t budget_blocks) {
  observe(now);
  uint64_t removed = 0;
  auto done = change([&](catalogue_effects& effects, journal_batch&) {
    std::vector<ticket> ended;
    tickets_.expire(now, ended);
    for (const ticket& gone : ended) let_go(gone);
    for (auto at = leases_.begin(); at != leases_.end();) {
      if (at->second.expires > now.steady) {
        ++at;
        continue;
      }
      catalogue_.unpin(at->second.entry, effects);
      at = leases_.erase(at);
    }
    if (!clock_.frozen()) removed = catalogue_.expire(clock_.now(), budget_blocks, effects);
  });
  if (!done) return done.error();
  count_.expired += removed;
  return removed;
}

result<uint64_t> segment_store::relieve(const clock_reading& now, uint64_t budget_blocks) {
  observe(now);
  const auto part = [this](double share) {
    return static_cast<uint64_t>(share * static_cast<double>(config_.capacity_bytes));
  };
  uint64_t removed = 0;
  auto done = change([&](catalogue_effects& effects, journal_batch&) {
    const uint64_t live = catalogue_.live_bytes() + tickets_.reserved_bytes();
    if (std::max(live, segments_.file_bytes()) < part(config_.high_mark)) return;
    const uint64_t goal = part(config_.low_mark);
    if (live > goal) removed = catalogue_.evict(live - goal, budget_blocks, clock_.now(), effects);
  });
  if (!done) return done.error();
  count_.evicted += removed;
  return removed;
}

// ---- purges

/// `state_` is held. A segment that holds purged bytes; an open one is closed, so that it can go.
void segment_store::rewrite_soon(uint32_t segment, journal_batch& batch) {
  auto* home = segments_.find(segment);
  if (home == nullptr || home->rewrite_due) return;
  home->rewrite_due = home->sealed = true;
  batch.rewrite_due.push_back(segment);
  if (active_ == segment) active_ = 0;
}

/// `state_` is held. What is reserved by now is never committed, and nothing is until the end; its
/// bytes may be in a file already, or on their way.
void segment_store::begin_purge(scope_id scope, journal_batch& batch) {
  ++purging_[scope];
  std::vector<ticket> ended;
  tickets_.end_scope(scope, ended);
  for (const ticket& gone : ended) let_go(gone);
  // bytes of blocks that left the catalogue before lie where they lay
  for (const uint32_t segment : segments_.left_by(scope)) rewrite_soon(segment, batch);
  batch.purge_due.push_back(scope);
}

void segment_store::end_purge(scope_id scope) {
  const auto found = purging_.find(scope);
  if (--found->second == 0) purging_.erase(found);
}

result<purge_part> segment_store::purge_from(scope_id scope, uint64_t cursor) {
  purge_part part;
  bool under_way = cursor != 0;
  auto done = change([&](catalogue_effects& effects, journal_batch& batch) {
    if (!under_way) begin_purge(scope, batch);
    under_way = true;
    const auto each = [&](const catalogue::entry& gone) {
      rewrite_soon(gone.segment, batch);
      if (gone.state != block_state::committed) return;
      ++part.removed.blocks;
      part.removed.bytes += gone.length;
    };
    const auto from = static_cast<uint32_t>(cursor == 0 ? 0 : cursor - 1);
    const uint32_t next =
        catalogue_.doom_some(scope, from, each, std::max(1u, config_.purge_blocks), effects);
    // Also when nothing is left here: what moved away left its contents in the journal. And with
    // each part again, since a round of erasing may have ended in between.
    if (cursor == 0 || part.removed.blocks > 0) {
      batch.rewrite_due.push_back(erased_mark);
      erased_due_ = true;
    }
    if (next != catalogue::none) {
      part.next_cursor = uint64_t{next} + 1;
      return;
    }
    batch.purge_done.push_back(scope);
    unfinished_.erase(scope);
    end_purge(scope);
    under_way = false;
  });
  count_.purged += part.removed.blocks;
  if (done) return part;
  std::unique_lock state{state_};
  if (under_way) end_purge(scope);
  unfinished_.insert(scope);
  return done.error();
}

/// What the journal refused before is done when it takes writes again, not only by the next life.
result<void> segment_store::finish_purges() {
  for (;;) {
    scope_id scope{};
    {
      std::shared_lock state{state_};
      if (unfinished_.empty()) return {};
      scope = *unfinished_.begin();
    }
    for (uint64_t cursor = 0;;) {
      const auto part = purge_from(scope, cursor);
      if (!part) return part.error();
      cursor = part->next_cursor;
      if (cursor == 0) break;
    }
  }
}

result<purge_part> segment_store::purge_some(scope_id scope,
                                             uint64_t cursor,
                                             const clock_reading& now) {
  observe(now);
  return purge_from(scope, cursor);
}

result<purge_totals> segment_store::purge(scope_id scope, const clock_reading& now) {
  observe(now);
  purge_totals removed;
  uint64_t cursor = 0;
  do {
    const auto part = purge_from(scope, cursor);
    if (!part) return part.error();
    removed.blocks += part->removed.blocks;
    removed.bytes += part->removed.bytes;
    cursor = part->next_cursor;
  } while (cursor != 0);
  return removed;
}

void segment_store::acknowledge_clock(const clock_reading& now) {
  std::unique_lock state{state_};
  clock_.acknowledge(now);
}

void segment_store::set_quota(scope_id scope, uint64_t bytes) {
  std::unique_lock state{state_};
  catalogue_.set_quota(scope, bytes);
}

result<void> segment_store::flush() {
  std::vector<uint32_t> all;
  {
    std::shared_lock state{state_};
    for (const auto& [number, segment] : segments_.all())
      if (segment.unsynced) all.push_back(number);
  }
  if (auto synced = sync_segments(all); !synced) return synced;
  if (auto names = files_->sync_names(); !names) return names;
  std::lock_guard order{order_};
  return journal_->sync();
}

}  // namespace deepinfer::storage
