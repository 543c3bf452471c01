// A write: reserve, pull, verify, write, commit, answer.
#include "actors/cache/kv_store_core.hpp"
#include "actors/messages/errors.hpp"

#include <caf/send.hpp>

#include <algorithm>
#include <atomic>
#include <utility>

namespace deepinfer {

using wire::KvPutOutcome;

void kv_store_core::let_go(wire::Lease::Reader lease) {
  if (lease.getId() == 0) return;
  const auto owner = self_->state.setup.hub->resolve<lease_owner_actor>(read_ref(lease.getOwner()));
  if (!owner) return;
  wire::draft<wire::LeaseRelease> out;
  out->setId(lease.getId());
  self_->send(*owner, out.freeze());
  self_->state.card.sent(*owner);
}

caf::typed_response_promise<wire::msg<wire::KvPutDone>> kv_store_core::put(
    const wire::msg<wire::KvPut>& msg) {
  kv_store_state& state = self_->state;
  auto promise = self_->make_response_promise<wire::msg<wire::KvPutDone>>();
  const auto& config = state.setup.config;
  auto work = read_put(msg, {config.store.max_batch, config.pull_bytes, config.store.group_blocks});
  if (!work) {
    state.card.count("puts_malformed");
    ++state.puts_malformed;
    let_go(msg.get().getLease());
    promise.deliver(to_caf(work.error()));
    return promise;
  }
  state.card.count("puts");
  const uint64_t number = state.next_number++;
  const auto time = std::min<std::chrono::nanoseconds>(
      std::chrono::milliseconds(msg.get().getDeadlineMs()), config.longest_put);
  (*work)->context.now = clocks();
  const auto refuse = [&](KvPutOutcome outcome) {
    state.card.count("puts_refused");
    let_go(msg.get().getLease());
    (*work)->outcomes.assign((*work)->items.size(), outcome);
    promise.deliver(put_done((*work)->outcomes));
    return promise;
  };
  const uint64_t seen = msg.get().getPlacement();
  if (seen != 0 && seen != *state.setup.backing.placement) {
    state.card.count("placements_differ");
    return refuse(KvPutOutcome::OTHER_PLACEMENT);
  }
  if (device_hangs()) return refuse(KvPutOutcome::FAILED);
  const bool taken =
      state.puts.size() < config.max_puts && !state.draining &&
      submit(
          {.run = [store = state.setup.backing.store, work = *work] { reserve_put(*store, *work); },
           .then = [this_ = *this, number]() mutable { this_.put_reserved(number); },
           .skipped = [this_ = *this, number]() mutable { this_.put_skipped(number); },
           .number = number});
  if (!taken) return refuse(KvPutOutcome::BUSY);
  state.puts.emplace(number, open_put{*std::move(work), promise, now(), now() + time, 0});
  late_after(number, time);
  return promise;
}

/// Nothing was reserved: its time was over before.
void kv_store_core::put_skipped(uint64_t number) {
  kv_store_state& state = self_->state;
  state.card.count("puts_late");
  put_work& work = *state.puts.at(number).work;
  work.outcomes.assign(work.items.size(), KvPutOutcome::STALE);
  end_put(number);
}

void kv_store_core::put_reserved(uint64_t number) {
  kv_store_state& state = self_->state;
  open_put& put = state.puts.at(number);
  if (!put.work->refusal) {
    const failure why = put.work->refusal.error();
    const bool stale = why.code == error_code::stale_epoch;
    const bool medium = why.code == error_code::unreachable;
    if (stale || medium)  // outcomes of blocks; the rest is the writer's mistake
      put.work->outcomes.assign(put.work->items.size(),
                                stale ? KvPutOutcome::STALE : KvPutOutcome::FAILED);
    else if (put.promise.pending()) {
      ++state.puts_malformed;
      put.promise.deliver(to_caf(why));
    }
    return end_put(number);
  }
  if (put.work->found_full() && !put.work->relieved && !device_hangs()) {
    state.card.count("puts_found_full");
    return enqueue({.lane = work_lane::writes,
                    .run = [store = state.setup.backing.store, work = put.work,
                            clocks = clocks()] { relieve_put(*store, *work, clocks); },
                    .then = [this_ = *this, number]() mutable { this_.put_reserved(number); }});
  }
  const auto& reserved = put.work->reserved;
  if (std::none_of(reserved.begin(), reserved.end(),
                   [](const auto& one) { return one.ticket != storage::ticket_id{}; }))
    return end_put(number);
  state.waiting_for_bytes.push_back(number);
  pull_waiting();
}

/// In the order they came, so that a long one is not passed for ever.
void kv_store_core::pull_waiting() {
  kv_store_state& state = self_->state;
  while (!state.waiting_for_bytes.empty()) {
    const uint64_t number = state.waiting_for_bytes.front();
    const uint64_t bytes = state.puts.at(number).work->granted_bytes();
    if (state.pulling_bytes != 0 && state.pulling_bytes + bytes > state.setup.config.pull_bytes)
      return;
    state.waiting_for_bytes.pop_front();
    state.pulling_bytes += bytes;
    state.puts.at(number).pulling_bytes = bytes;
    pull(number);
  }
}

/// All blocks that were granted, side by side. The buffers belong to the reads until the last of
/// them has called back.
void kv_store_core::pull(uint64_t number) {
  kv_store_state& state = self_->state;
  open_put& put = state.puts.at(number);
  const std::shared_ptr<put_work> work = put.work;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(put.deadline - now());
  if (!put.promise.pending() || left.count() <= 0) return pulled(number);
  const kv_store_impl_actor me{self_};
  // One more than there are reads, so that nothing ends before all have begun.
  const auto open = std::make_shared<std::atomic<size_t>>(1);
  const auto one_less = [open, me, number] {
    if (open->fetch_sub(1) == 1) caf::anon_send(me, put_pulled{number});
  };
  for (size_t i = 0; i < work->items.size(); ++i) {
    if (!work->granted(i)) continue;
    work->bytes[i].resize(work->items[i].length);
    open->fetch_add(1);
    state.setup.transport->read(
        work->source_node,
        {work->sources[i].region, work->sources[i].offset, work->items[i].length}, work->bytes[i],
        left, [work, i, one_less](result<void> read) {
          work->pulls[i] = std::move(read);
          one_less();
        });
  }
  one_less();
}

/// It may have left another store before that one was purged; asked behind the reservation, so that
/// a purge ends what was reserved before it.
bool kv_store_core::moved_before_purge(const put_work& work) const {
  const auto& purged = self_->state.purged;
  const auto found = purged.find(static_cast<uint64_t>(work.context.scope));
  if (found == purged.end() || found->second <= now()) return false;
  return std::any_of(work.items.begin(), work.items.end(),
                     [](const auto& item) { return item.expiry.count() != 0; });
}

void kv_store_core::pulled(uint64_t number) {
  kv_store_state& state = self_->state;
  const auto found = state.puts.find(number);
  if (found == state.puts.end()) return;
  const auto work = found->second.work;
  // Nobody reads the writer's memory any more.
  let_go(work->message.get().getLease());
  work->source_node = {};
  for (size_t i = 0; i < work->items.size(); ++i)
    if (work->granted(i) && !work->pulls[i]) state.card.count("pulls_failed");
  const bool late = !found->second.promise.pending() || now() >= found->second.deadline ||
                    moved_before_purge(*work);
  if (late) work->outcomes.assign(work->items.size(), KvPutOutcome::STALE);
  auto run = [store = state.setup.backing.store, work, late, clocks = clocks()] {
    if (late)
      abandon_put(*store, *work);
    else
      finish_put(*store, *work, clocks);
  };
  // What was pulled is not thrown away because of a long queue: its length is that of `max_puts`.
  enqueue({.lane = work_lane::writes,
           .run = std::move(run),
           .then = [this_ = *this, number]() mutable { this_.end_put(number); }});
}

void kv_store_core::answer_put(open_put& put) {
  kv_store_state& state = self_->state;
  if (!put.promise.pending()) return;
  put.promise.deliver(put_done(put.work->outcomes));
  uint64_t stored_bytes = 0;
  for (size_t i = 0; i < put.work->items.size(); ++i) {
    const KvPutOutcome outcome = put.work->outcomes[i];
    if (outcome == KvPutOutcome::STORED) {
      stored_bytes += put.work->items[i].length;
      state.longest_block = std::max<uint64_t>(state.longest_block, put.work->items[i].length);
    }
    if (outcome == KvPutOutcome::FULL) ++state.blocks_full;
    if (outcome == KvPutOutcome::CORRUPT) state.card.count("blocks_corrupt");
  }
  if (state.setup.metrics && stored_bytes > 0)
    state.setup.metrics->write.took(now() - put.begun, stored_bytes);
}

void kv_store_core::end_put(uint64_t number) {
  kv_store_state& state = self_->state;
  const auto found = state.puts.find(number);
  if (found == state.puts.end()) return;
  // `pulled` took the source away when it let go of the lease.
  if (found->second.work->source_node) let_go(found->second.work->message.get().getLease());
  answer_put(found->second);
  state.pulling_bytes -= found->second.pulling_bytes;
  state.puts.erase(found);
  changed();
  pull_waiting();
  answer_drain();
}

}  // namespace deepinfer
