#include "actors/node/fetch_keeper.hpp"

#include <algorithm>

namespace deepinfer {
namespace {

using self_ptr = fetch_keeper_actor::stateful_pointer<fetch_keeper_state>;

constexpr std::chrono::milliseconds look_every{500};
constexpr std::chrono::milliseconds longest_backoff{30000};
constexpr std::chrono::seconds healthy_after{60};

std::chrono::nanoseconds now_of(self_ptr self) {
  return self->clock().now().time_since_epoch();
}

void note_end(self_ptr self) {
  fetch_keeper_state& state = self->state;
  state.started = false;
  const bool healthy = now_of(self) - state.started_at >= healthy_after;
  state.backoff = healthy ? look_every : std::clamp(2 * state.backoff, look_every, longest_backoff);
  state.not_before = now_of(self) + state.backoff;
  state.card.count("processes_lost");
  if (state.setup.log) state.setup.log->warn("kvfetch.lost", {{"again_in", state.backoff}});
}

void look(self_ptr self) {
  fetch_keeper_state& state = self->state;
  if (state.started && !state.setup.running()) note_end(self);
  if (state.started || !state.stores || now_of(self) < state.not_before) return;
  if (!state.setup.may_start()) return;
  state.started_at = now_of(self);
  const auto begun = state.setup.start();
  if (!begun) {
    if (state.setup.log)
      state.setup.log->warn("kvfetch.not_started", {{"why", to_string(begun.error())}});
    return note_end(self);
  }
  state.started = true;
  state.card.count("processes_started");
  if (state.setup.log) state.setup.log->info("kvfetch.started");
}

bool offers_store(wire::Members::Reader members) {
  for (const auto record : members.getRecords())
    for (const auto service : record.getServices())
      if (service.getKind() == "kvstore") return true;
  return false;
}

}  // namespace

fetch_keeper_actor::behavior_type fetch_keeper(self_ptr self, const keeper_setup& setup) {
  self->state.setup = setup;
  self->state.card = actor_card{"fetch_keeper", *setup.hub};
  self->send(self, keeper_tick{});
  return {
      [self](const wire::msg<wire::Members>& members) {
        self->state.stores = self->state.stores || offers_store(members.get());
      },
      [self](const keeper_tick&) {
        look(self);
        self->delayed_send(self, look_every, keeper_tick{});
      },
      [self](const wire::msg<wire::Inspect>&) {
        self->state.card.set("running", self->state.started ? 1 : 0);
        return self->state.card.info(*self, self->state.started ? "its process runs" : "waits");
      },
  };
}

}  // namespace deepinfer
