#include "actors/cache/kv_store.hpp"

#include "actors/cache/kv_store_core.hpp"
#include "actors/messages/errors.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace deepinfer {

namespace {

constexpr std::chrono::milliseconds tick_every{500};  // what is left by readers is freed then

std::string describe(const kv_store_state& state) {
  const auto stats = state.setup.backing.store->stats();
  return std::to_string(stats.blocks) + " blocks, " + std::to_string(state.puts.size()) +
         " writes, " + std::to_string(state.reads.size()) + " reads, " +
         std::to_string(state.waiters.size()) + " indexes wait for changes" +
         (stats.broken ? "; the journal refuses writes: look at its disk" : "") +
         (stats.clock_frozen ? "; the clock jumped: nothing expires until it is acknowledged" : "");
}

}  // namespace

result<void> kv_store_core::start(const kv_store_setup& setup) {
  kv_store_state& state = self_->state;
  state.setup = setup;
  state.card = actor_card{"kv_store", *setup.hub};
  auto staging = staging_area::make(*setup.transport, setup.config.staging_bytes);
  if (!staging) return staging.error();
  state.staging = *std::move(staging);
  const auto ref = setup.hub->export_actor(kv_store_actor{kv_store_impl_actor{self_}});
  if (!ref) return ref.error();
  state.self_ref = *ref;
  for (uint32_t i = 0; i < setup.config.io_workers; ++i) {
    state.idle.push_back(setup.spawn_io());
    self_->link_to(state.idle.back());  // a store without its workers is none
  }
  return {};
}

// ---- work that blocks

bool kv_store_core::submit(lane where, std::function<void()> run, std::function<void()> then) {
  kv_store_state& state = self_->state;
  auto& queue = where == lane::reads ? state.reads_waiting : state.writes_waiting;
  if (queue.size() >= state.setup.config.max_waiting_works) return false;
  queue.push_back({std::move(run), std::move(then)});
  dispatch();
  return true;
}

/// Reads first, since somebody waits for them; but one worker always writes when there is a write.
void kv_store_core::dispatch() {
  kv_store_state& state = self_->state;
  while (!state.idle.empty() && !(state.reads_waiting.empty() && state.writes_waiting.empty())) {
    const bool write =
        state.reads_waiting.empty() || (!state.writes_waiting.empty() && state.writes_running == 0);
    auto& queue = write ? state.writes_waiting : state.reads_waiting;
    queued_work next = std::move(queue.front());
    queue.pop_front();
    hand_over(write ? lane::writes : lane::reads, std::move(next));
  }
}

// No time limit: a device that hangs holds this worker, and what waits ends by its own deadline.
void kv_store_core::hand_over(lane where, queued_work work) {
  kv_store_state& state = self_->state;
  const kv_io_actor worker = state.idle.back();
  state.idle.pop_back();
  const bool writes = where == lane::writes;
  if (writes) ++state.writes_running;
  const uint64_t number = state.next_number++;
  state.running.emplace(number, running_work{worker, std::move(work.then), writes});
  self_->send(worker,
              io_work{number, std::move(work.run), io_sink_actor{kv_store_impl_actor{self_}}});
  state.card.sent(worker);
}

void kv_store_core::work_done(uint64_t number) {
  kv_store_state& state = self_->state;
  const auto found = state.running.find(number);
  if (found == state.running.end()) return;
  const running_work done = std::move(found->second);
  state.running.erase(found);
  if (done.writes) --state.writes_running;
  state.idle.push_back(done.worker);
  done.then();
  dispatch();
  answer_drain();
}

// ---- deadlines and the end

void kv_store_core::late_after(uint64_t number, std::chrono::nanoseconds wait) {
  self_->delayed_send(self_, wait, kv_late{number});
}

void kv_store_core::late(uint64_t number) {
  kv_store_state& state = self_->state;
  if (const auto put = state.puts.find(number); put != state.puts.end()) {
    if (!put->second.promise.pending()) return;
    // The work itself goes on to where it can be let go of; a worker may have it now.
    state.card.count("puts_late");
    const std::vector<wire::KvPutOutcome> late(put->second.work->items.size(),
                                               wire::KvPutOutcome::STALE);
    put->second.promise.deliver(put_done(late));
  } else if (const auto read = state.reads.find(number); read != state.reads.end()) {
    if (!read->second.promise.pending()) return;
    state.card.count("reads_late");
    read->second.promise.deliver(
        read_done(read->second.work->keys.size(), wire::KvReadStatus::FAILED));
  } else if (const auto waiter = state.waiters.find(number); waiter != state.waiters.end()) {
    waiter->second.promise.deliver(
        to_wire(store().changes_after(waiter->second.after, waiter->second.limit)));
    state.waiters.erase(waiter);
  }
}

caf::typed_response_promise<wire::msg<wire::Ack>> kv_store_core::drain() {
  kv_store_state& state = self_->state;
  auto promise = self_->make_response_promise<wire::msg<wire::Ack>>();
  state.draining = true;
  state.drained = promise;
  for (auto& [number, waiter] : state.waiters)
    waiter.promise.deliver(to_wire(store().changes_after(waiter.after, waiter.limit)));
  state.waiters.clear();
  answer_drain();
  return promise;
}

void kv_store_core::answer_drain() {
  kv_store_state& state = self_->state;
  const bool open = !state.puts.empty() || !state.reads.empty() || !state.running.empty() ||
                    !state.writes_waiting.empty() || !state.reads_waiting.empty();
  if (!state.drained.pending() || open) return;
  auto promise = std::exchange(state.drained, {});
  const bool taken = submit(
      lane::writes, [store = state.setup.backing.store] { static_cast<void>(store->flush()); },
      [promise]() mutable { promise.deliver(wire::msg<wire::Ack>{}); });
  if (!taken) promise.deliver(wire::msg<wire::Ack>{});
}

// Gauges are read from the state at the moment of the question, so they cannot drift from it.
void kv_store_core::set_gauges() {
  kv_store_state& state = self_->state;
  const storage::store_stats s = store().stats();
  const std::pair<const char*, uint64_t> gauges[] = {
      {"blocks", s.blocks},
      {"live_bytes", s.live_bytes},
      {"file_bytes", s.file_bytes},
      {"capacity_bytes", s.capacity_bytes},
      {"leases", s.leases},
      {"reservations", s.reservations},
      {"doomed", s.doomed},
      {"stored", s.stored},
      {"refreshed", s.refreshed},
      {"diverged", s.diverged},
      {"hash_collisions", s.hash_collisions},
      {"over_quota", s.over_quota},
      {"quarantined", s.quarantined},
      {"read_bytes", s.read_bytes},
      {"written_bytes", s.written_bytes},
      {"read_failures", s.read_failures},
      {"write_failures", s.write_failures},
      {"lost_at_open", s.lost_at_open},
      {"clock_frozen", s.clock_frozen ? 1 : 0},
      {"broken", s.broken ? 1 : 0},
      {"puts_open", state.puts.size()},
      {"reads_open", state.reads.size()},
      {"waiters", state.waiters.size()},
      {"pulling_bytes", state.pulling_bytes},
      {"staged_bytes", state.staging->leases().used_bytes()},
      {"works_waiting", state.reads_waiting.size() + state.writes_waiting.size()}};
  for (const auto& [name, value] : gauges) state.card.set(name, static_cast<int64_t>(value));
}

kv_store_impl_actor::behavior_type kv_store(
    kv_store_impl_actor::stateful_pointer<kv_store_state> self, const kv_store_setup& setup) {
  if (const auto ready = kv_store_core{self}.start(setup); !ready) {
    self->quit(to_caf(ready.error()));
    return kv_store_impl_actor::behavior_type::make_empty_behavior();
  }
  self->delayed_send(self, tick_every, kv_store_tick{});
  using core = kv_store_core;
  return {
      [self](const wire::msg<wire::KvPut>& msg) { return core{self}.put(msg); },
      [self](const wire::msg<wire::KvOpen>& msg) { return core{self}.open(msg.get()); },
      [self](const wire::msg<wire::KvRead>& msg) { return core{self}.read(msg.get()); },
      [self](const wire::msg<wire::KvChangesQuery>& msg) { return core{self}.changes(msg.get()); },
      [self](const wire::msg<wire::KvSnapshotQuery>& msg) {
        return core{self}.snapshot(msg.get());
      },
      [self](const wire::msg<wire::KvInfoQuery>&) { return core{self}.info(); },
      [self](const wire::msg<wire::KvHave>& msg) { return core{self}.have(msg.get()); },
      [self](const wire::msg<wire::KvPurge>& msg) { return core{self}.purge(msg.get()); },
      [self](const wire::msg<wire::KvClockAcknowledge>&) { return core{self}.acknowledge_clock(); },
      [self](const wire::msg<wire::KvRenew>& msg) { core{self}.renew(msg.get()); },
      [self](const wire::msg<wire::KvClose>& msg) { core{self}.close(msg.get()); },
      [self](const wire::msg<wire::KvReportBad>& msg) { core{self}.report_bad(msg.get()); },
      [self](const wire::msg<wire::LeaseRelease>& msg) {
        core{self}.release_read(msg.get().getId());
      },
      [self](const wire::msg<wire::Inspect>&) {
        core{self}.set_gauges();
        return self->state.card.info(*self, describe(self->state));
      },
      [self](const io_done& done) { core{self}.work_done(done.number); },
      [self](const put_pulled& pulled) { core{self}.pulled(pulled.put); },
      [self](const kv_late& late) { core{self}.late(late.number); },
      [self](const store_changed&) { core{self}.changed(); },
      [self](const feed_due&) { core{self}.feed(); },
      [self](const kv_store_tick&) {
        core{self}.expire_reads();
        self->delayed_send(self, tick_every, kv_store_tick{});
      },
      [self](const drain_store&) { return core{self}.drain(); },
  };
}

}  // namespace deepinfer
