#include "actors/node/fetch_keeper.hpp"

#include <algorithm>

namespace deepinfer {
namespace {

using self_ptr = fetch_keeper_actor::stateful_pointer<fetch_keeper_state>;

constexpr std::chrono::milliseconds look_every{500};
constexpr std::chrono::milliseconds longest_backoff{30000};
constexpr std::chrono::seconds healthy_after{60};
constexpr uint32_t most_useless_starts = 3;

std::chrono::nanoseconds now_of(self_ptr self) {
  return self->clock().now().time_since_epoch();
}

void tell_end(self_ptr self, const fetch_end& end) {
  fetch_keeper_state& state = self->state;
  if (!state.setup.log) return;
  const std::initializer_list<log_field> fields{{"why", end.why}, {"again_in", state.backoff}};
  if (!end.came_up)
    state.setup.log->warn("kvfetch.not_started", fields);
  else if (end.killed || end.failed)
    state.setup.log->warn("kvfetch.lost", fields);
  else
    state.setup.log->info("kvfetch.ended", fields);  // somebody asked it to
}

void fetch_inside(self_ptr self, const fetch_end& end) {
  fetch_keeper_state& state = self->state;
  state.over = true;
  const auto made = state.setup.fetch_inside();
  state.inside = made.has_value();
  if (made) self->link_to(*made);
  if (!state.setup.log) return;
  if (made)
    state.setup.log->warn("kvfetch.inside", {{"why", end.why}, {"starts", state.useless_starts}});
  else  // engines compute what they do not get
    state.setup.log->warn("kvfetch.absent", {{"why", made.error().detail}});
}

void note_end(self_ptr self, const fetch_end& end) {
  fetch_keeper_state& state = self->state;
  state.started = false;
  const bool healthy = end.came_up && now_of(self) - state.started_at >= healthy_after;
  state.backoff = healthy ? look_every : std::clamp(2 * state.backoff, look_every, longest_backoff);
  state.not_before = now_of(self) + state.backoff;
  state.useless_starts = end.came_up || end.killed ? 0 : state.useless_starts + 1;
  state.card.count("processes_lost");
  tell_end(self, end);
  if (state.useless_starts >= most_useless_starts && state.setup.fetch_inside)
    fetch_inside(self, end);
}

void look(self_ptr self) {
  fetch_keeper_state& state = self->state;
  if (state.started)
    if (const auto end = state.setup.ended()) note_end(self, *end);
  if (state.over || state.started || !state.stores || now_of(self) < state.not_before) return;
  if (!state.setup.may_start()) return;
  state.started_at = now_of(self);
  const auto begun = state.setup.start();
  if (!begun) return note_end(self, {.failed = true, .why = begun.error().detail});
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

const char* describe(const fetch_keeper_state& state) {
  if (state.over) return state.inside ? "gave up: this node fetches" : "gave up";
  return state.started ? "its process runs" : "waits";
}

}  // namespace

fetch_keeper_actor::behavior_type fetch_keeper(self_ptr self, const keeper_setup& setup) {
  self->state.setup = setup;
  self->state.card = actor_card{"fetch_keeper", *setup.hub};
  // not at once: a node that starts has better things to do
  self->delayed_send(self, look_every, keeper_tick{});
  return {
      [self](const wire::msg<wire::Members>& members) {
        self->state.stores = self->state.stores || offers_store(members.get());
      },
      [self](const keeper_tick&) {
        if (self->state.over) return;
        look(self);
        self->delayed_send(self, look_every, keeper_tick{});
      },
      [self](const stop_keeping&) { self->state.over = true; },
      [self](const wire::msg<wire::Inspect>&) {
        self->state.card.set("running", self->state.started ? 1 : 0);
        return self->state.card.info(*self, describe(self->state));
      },
  };
}

}  // namespace deepinfer
