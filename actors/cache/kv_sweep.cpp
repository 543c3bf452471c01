#include "actors/cache/kv_sweep.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace deepinfer {

namespace {

using self_ptr = kv_sweep_actor::stateful_pointer<kv_sweep_state>;

/// Adds what a step did, or that it could not.
void note(const result<uint64_t>& step, uint64_t& sum, sweep_round& round) {
  if (step)
    sum += *step;
  else
    ++round.failures;
}

struct sweep_budget {
  uint64_t blocks = 0;
  uint64_t compact_bytes = 0;
  uint64_t scrub_bytes = 0;
};

void run_round(storage::block_store& store,
               sweep_round& round,
               const sweep_budget& budget,
               const storage::clock_reading& now) {
  note(store.expire(now, budget.blocks), round.expired, round);
  note(store.relieve(now, budget.blocks), round.evicted, round);
  note(store.compact(budget.compact_bytes, now), round.compacted_bytes, round);
  if (budget.scrub_bytes > 0)
    note(store.scrub(budget.scrub_bytes, now), round.scrubbed_bytes, round);
}

void begin_round(self_ptr self) {
  kv_sweep_state& state = self->state;
  const kv_sweep_config& config = state.setup.config;
  self->delayed_send(self, config.every, sweep_tick{});
  if (state.round) return state.card.count("rounds_skipped");  // the device is slow
  const auto now = self->clock().now().time_since_epoch();
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now - state.last_begun);
  state.last_begun = now;
  const sweep_budget budget{config.blocks, config.compact_bytes,
                            scrub_budget(config, state.setup.backing.store->stats().live_bytes,
                                         passed, state.scrub_owed)};
  const storage::clock_reading clocks{state.setup.wall(),
                                      std::chrono::duration_cast<std::chrono::milliseconds>(now)};
  state.round = std::make_shared<sweep_round>();
  self->send(state.io, io_work{0,
                               [store = state.setup.backing.store, round = state.round, budget,
                                clocks] { run_round(*store, *round, budget, clocks); },
                               io_sink_actor{kv_sweep_actor{self}}});
  state.card.sent(state.io);
}

void end_round(self_ptr self) {
  kv_sweep_state& state = self->state;
  if (!state.round) return;
  state.last = *std::exchange(state.round, nullptr);
  const std::pair<const char*, uint64_t> sums[] = {{"expired", state.last.expired},
                                                   {"evicted", state.last.evicted},
                                                   {"bytes_given_back", state.last.compacted_bytes},
                                                   {"bytes_scrubbed", state.last.scrubbed_bytes},
                                                   {"failures", state.last.failures}};
  for (const auto& [name, value] : sums)
    if (value > 0) state.card.count(name, static_cast<int64_t>(value));
  state.card.count("rounds");
  self->send(state.setup.store, store_changed{});
}

// Gauges are read from the state at the moment of the question, so they cannot drift from it.
wire::msg<wire::ActorInfo> tell(self_ptr self) {
  kv_sweep_state& state = self->state;
  const storage::store_stats s = state.setup.backing.store->stats();
  const std::pair<const char*, uint64_t> gauges[] = {
      {"live_bytes", s.live_bytes},
      {"file_bytes", s.file_bytes},
      {"segments", s.segments},
      {"doomed", s.doomed},
      {"scopes", s.scopes},
      {"purged", s.purged},
      {"quarantined", s.quarantined},
      {"compacted_bytes", s.compacted_bytes},
      {"scrub_passes", s.scrub_passes},
      {"evicted_below_floor", s.evicted_below_floor},
      {"youngest_eviction_s",
       s.youngest_eviction_ms == UINT64_MAX ? 0 : s.youngest_eviction_ms / 1000},
      {"last_eviction_s", s.last_eviction_ms == UINT64_MAX ? 0 : s.last_eviction_ms / 1000}};
  for (const auto& [name, value] : gauges) state.card.set(name, static_cast<int64_t>(value));
  const sweep_round& last = state.last;
  return state.card.info(*self, "last round: " + std::to_string(last.expired) + " expired, " +
                                    std::to_string(last.evicted) + " evicted, " +
                                    std::to_string(last.compacted_bytes) + " bytes given back, " +
                                    std::to_string(last.scrubbed_bytes) + " verified");
}

}  // namespace

uint64_t scrub_budget(const kv_sweep_config& config,
                      uint64_t live_bytes,
                      std::chrono::milliseconds passed,
                      double& owed) {
  constexpr double margin = 1.1;
  const double share =
      static_cast<double>(passed.count()) / static_cast<double>(config.scrub_pass.count());
  owed = std::min(owed + margin * share * static_cast<double>(live_bytes),
                  static_cast<double>(config.scrub_bytes));
  if (owed < 1) return 0;
  const auto budget = static_cast<uint64_t>(owed);
  owed -= static_cast<double>(budget);
  return budget;
}

kv_sweep_actor::behavior_type kv_sweep(self_ptr self, const kv_sweep_setup& setup) {
  kv_sweep_state& state = self->state;
  state.setup = setup;
  state.card = actor_card{"kv_sweep", *setup.hub};
  state.io = setup.spawn_io();
  self->link_to(state.io);
  state.last_begun = self->clock().now().time_since_epoch();
  self->delayed_send(self, setup.config.every, sweep_tick{});
  return {
      [self](const sweep_tick&) { begin_round(self); },
      [self](const io_done&) { end_round(self); },
      [self](const wire::msg<wire::Inspect>&) { return tell(self); },
  };
}

}  // namespace deepinfer
