#include "actors/cache/kv_store.hpp"

#include "actors/cache/kv_store_core.hpp"
#include "actors/messages/errors.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

namespace deepinfer {

namespace {

constexpr std::chrono::milliseconds tick_every{500};  // what is left by readers is freed then
constexpr std::chrono::milliseconds unsaid_deadline{10'000};

size_t place_of(work_lane lane) {
  return static_cast<size_t>(lane);
}

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
  state.watch = store_watch{setup.backing.folder.empty() ? "memory" : setup.backing.folder};
  for (uint32_t i = 0; i < setup.config.io_workers + 1; ++i) {  // one of them for the index
    state.idle.push_back(setup.spawn_io());
    self_->link_to(state.idle.back());  // a store without its workers is none
  }
  return {};
}

// ---- work that blocks

bool kv_store_core::submit(queued_work work) {
  kv_store_state& state = self_->state;
  if (state.waiting[place_of(work.lane)].size() >= state.setup.config.max_waiting_works)
    return false;
  enqueue(std::move(work));
  return true;
}

void kv_store_core::enqueue(queued_work work) {
  kv_store_state& state = self_->state;
  if (work.number == 0) work.number = state.next_number++;
  if (work.within.count() > 0) late_after(work.number, work.within);
  state.waiting[place_of(work.lane)].push_back(std::move(work));
  dispatch();
}

/// Of the I/O actors one is left to the index, and one of the others always writes when there is a
/// write; else reads go first, since somebody waits for them. What is left does index work.
std::optional<work_lane> kv_store_core::next_lane() const {
  const kv_store_state& state = self_->state;
  const auto waits = [&state](work_lane lane) { return !state.waiting[place_of(lane)].empty(); };
  const auto works = [&state](work_lane lane) { return state.working[place_of(lane)]; };
  const uint32_t at_device = works(work_lane::reads) + works(work_lane::writes);
  const bool device = (waits(work_lane::reads) || waits(work_lane::writes)) &&
                      at_device < state.setup.config.io_workers;
  if (waits(work_lane::index) && (!device || works(work_lane::index) == 0)) return work_lane::index;
  if (!device) return std::nullopt;
  const bool write =
      !waits(work_lane::reads) || (waits(work_lane::writes) && works(work_lane::writes) == 0);
  return write ? work_lane::writes : work_lane::reads;
}

void kv_store_core::dispatch() {
  kv_store_state& state = self_->state;
  while (!state.idle.empty()) {
    const auto lane = next_lane();
    if (!lane) return;
    auto& queue = state.waiting[place_of(*lane)];
    queued_work next = std::move(queue.front());
    queue.pop_front();
    hand_over(std::move(next));
  }
}

// No time limit: a device that hangs holds this worker, and its asker is answered at the deadline.
void kv_store_core::hand_over(queued_work work) {
  kv_store_state& state = self_->state;
  const kv_io_actor worker = state.idle.back();
  state.idle.pop_back();
  ++state.working[place_of(work.lane)];
  state.running.emplace(work.number, running_work{worker, std::move(work.then),
                                                  std::move(work.late), work.lane, now()});
  self_->send(worker,
              io_work{work.number, std::move(work.run), io_sink_actor{kv_store_impl_actor{self_}}});
  state.card.sent(worker);
}

void kv_store_core::work_done(uint64_t number) {
  kv_store_state& state = self_->state;
  const auto found = state.running.find(number);
  if (found == state.running.end()) return;
  const running_work done = std::move(found->second);
  state.running.erase(found);
  --state.working[place_of(done.lane)];
  state.idle.push_back(done.worker);
  done.then();
  dispatch();
  answer_drain();
}

size_t kv_store_core::works_waiting() const {
  size_t sum = 0;
  for (const auto& queue : self_->state.waiting) sum += queue.size();
  return sum;
}

uint32_t kv_store_core::hung() const {
  const auto limit = self_->state.setup.config.stuck_after;
  uint32_t count = 0;
  for (const auto& [number, work] : self_->state.running)
    if (work.lane != work_lane::index && now() - work.begun >= limit) ++count;
  return count;
}

bool kv_store_core::device_hangs() const {
  return hung() >= self_->state.setup.config.io_workers;
}

failure kv_store_core::device_trouble() const {
  const kv_store_state& state = self_->state;
  return {error_code::unreachable,
          "the device of this KV store does not answer: " + std::to_string(hung()) +
              " reads or writes have waited for it for more than " +
              std::to_string(state.setup.config.stuck_after.count()) + " ms. Look at " +
              state.setup.backing.folder};
}

// ---- deadlines and the end

void kv_store_core::late_after(uint64_t number, std::chrono::nanoseconds wait) {
  self_->delayed_send(self_, wait, kv_late{number});
}

std::chrono::nanoseconds kv_store_core::asked_within(uint32_t deadline_ms) const {
  const auto asked = deadline_ms == 0 ? unsaid_deadline : std::chrono::milliseconds(deadline_ms);
  return std::min(asked, self_->state.setup.config.longest_read);
}

std::optional<queued_work> kv_store_core::take_waiting(uint64_t number) {
  for (auto& queue : self_->state.waiting) {
    const auto found = std::find_if(queue.begin(), queue.end(), [number](const queued_work& work) {
      return work.number == number;
    });
    if (found == queue.end()) continue;
    queued_work taken = std::move(*found);
    queue.erase(found);
    return taken;
  }
  return std::nullopt;
}

void kv_store_core::late(uint64_t number) {
  kv_store_state& state = self_->state;
  if (const auto work = take_waiting(number)) {
    state.card.count("works_skipped");
    work->skipped();
    answer_drain();
  } else if (const auto put = state.puts.find(number); put != state.puts.end()) {
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
  } else if (const auto running = state.running.find(number); running != state.running.end()) {
    running->second.late();
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
  const bool open =
      !state.puts.empty() || !state.reads.empty() || !state.running.empty() || works_waiting() > 0;
  if (!state.drained.pending() || open) return;
  auto promise = std::exchange(state.drained, {});
  const bool taken =
      submit({.lane = work_lane::writes,
              .run = [store = state.setup.backing.store] { static_cast<void>(store->flush()); },
              .then = [promise]() mutable { promise.deliver(wire::msg<wire::Ack>{}); }});
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
      {"hung", hung()},
      {"works_waiting", works_waiting()}};
  for (const auto& [name, value] : gauges) state.card.set(name, static_cast<int64_t>(value));
}

void kv_store_core::watch() {
  kv_store_state& state = self_->state;
  if (!state.setup.log) return;
  const store_signs signs{hung(), state.blocks_full, state.puts_malformed};
  for (const store_event& event : state.watch.look(store().stats(), signs, now())) {
    const std::initializer_list<log_field> fields{
        {"folder", state.watch.where()}, {"count", event.count}, {"why", event.why}};
    event.good ? state.setup.log->info(event.name, fields)
               : state.setup.log->warn(event.name, fields);
  }
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
        core{self}.watch();
        self->delayed_send(self, tick_every, kv_store_tick{});
      },
      [self](const drain_store&) { return core{self}.drain(); },
  };
}

}  // namespace deepinfer
