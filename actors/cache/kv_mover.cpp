#include "actors/cache/kv_mover.hpp"

#include "actors/cache/kv_mover_core.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace deepinfer {

namespace {

constexpr std::chrono::seconds tick_every{1};
constexpr std::chrono::seconds ask_again{5};
/// Longer than what was sent waits at a store, or an order to purge on its way to all stores.
constexpr std::chrono::minutes purges_followed{2};
constexpr size_t most_sent = 4096;
/// Sets this writer apart from the engines' among the writers that a store knows.
constexpr uint64_t writer_mark = 0x6d6f7665726d6f76;

std::string describe(const kv_mover_state& state) {
  if (!state.setup.config.enabled) return "switched off (kvmove.enabled)";
  if (!state.moves->agree())
    return "the stores disagree: make kvstore.group_blocks and kvstore.replicas equal";
  if (state.moves->stores() < 2) return "no other store";
  if (!state.walk) return "rests";
  return std::string{state.walk->kind == policy::walk_kind::all ? "looks at all groups, "
                                                                : "looks for strays, "} +
         std::to_string(state.walk->seen) + " so far, " +
         std::to_string(state.walk->leaving.size()) + " leave";
}

}  // namespace

result<void> kv_mover_core::start(const kv_mover_setup& setup) {
  kv_mover_state& state = self_->state;
  state.setup = setup;
  state.card = actor_card{"kv_mover", *setup.hub};
  auto staging = staging_area::make(*setup.transport, setup.config.staging_bytes);
  if (!staging) return staging.error();
  state.staging = *std::move(staging);
  const auto ref = setup.hub->export_actor(lease_owner_actor{kv_mover_actor{self_}});
  if (!ref) return ref.error();
  state.self_ref = *ref;
  state.io = setup.spawn_io();
  self_->link_to(state.io);
  const kv_backing& backing = setup.backing;
  const policy::store_site site{backing.id.hi, backing.id.lo,
                                std::max<uint64_t>(1, backing.capacity_bytes)};
  policy::move_limits limits;
  limits.settle = setup.config.settle;
  limits.gone_after = setup.config.gone_after;
  limits.strays_every = setup.config.strays_every;
  limits.copies_every = setup.config.copies_every;
  limits.left_out = setup.config.left_out;
  state.moves.emplace(
      policy::move_store{site, setup.group_blocks, std::clamp(backing.replicas, 1u, 3u)}, limits,
      now());
  show_placement();
  self_->delayed_send(self_, tick_every, mover_tick{});
  return {};
}

move_sender kv_mover_core::sender() const {
  const kv_mover_state& state = self_->state;
  return {{state.setup.backing.id.hi ^ state.setup.backing.id.lo ^ writer_mark, store().epoch()},
          state.self_ref,
          state.setup.config.put_deadline,
          state.moves->view()};
}

// ---- who else is there

void kv_mover_core::members(wire::Members::Reader members) {
  kv_mover_state& state = self_->state;
  for (const auto& id : state.directory.take(members)) state.moves->lose_store(id, now());
  ask_stores();
}

void kv_mover_core::ask_stores() {
  kv_mover_state& state = self_->state;
  for (const auto& [key, asked] : state.directory.to_ask(*state.setup.hub, now(), ask_again)) {
    const auto answered = [this_ = *this, key = key](const wire::msg<wire::KvInfo>& info) mutable {
      kv_mover_state& mine = this_.self_->state;
      if (mine.directory.name(key, info.get()) != store_directory::named::taken) return;
      const auto said = info.get();
      const policy::store_site site{said.getStore().getHi(), said.getStore().getLo(),
                                    std::max<uint64_t>(1, said.getCapacityBytes())};
      mine.moves->set_store({site, said.getGroupBlocks(), std::clamp(said.getReplicas(), 1u, 3u)},
                            this_.now());
      this_.show_placement();
    };
    self_->request(asked, ask_again, wire::draft<wire::KvInfoQuery>{}.freeze())
        .then(answered,
              [self = self_](const caf::error&) { self->state.card.count("stores_silent"); });
    state.card.sent(asked);
  }
}

/// To the store beside it, which others ask whether they may give blocks away.
void kv_mover_core::show_placement() {
  self_->state.setup.backing.placement->store(self_->state.moves->view());
}

// ---- when

void kv_mover_core::tick() {
  kv_mover_state& state = self_->state;
  self_->delayed_send(self_, tick_every, mover_tick{});
  static_cast<void>(state.staging->leases().expire(now()));
  ask_stores();
  follow_purges();
  // Asked also during a walk, since it is what ends the places of stores that are gone.
  const auto kind = state.moves->due(now());
  show_placement();
  if (kind && !state.walk && state.open == 0 && !state.stopped && state.setup.config.enabled)
    begin_walk(*kind);
}

void kv_mover_core::begin_walk(policy::walk_kind kind) {
  kv_mover_state& state = self_->state;
  ++state.turn;
  state.walk.emplace();
  state.walk->kind = kind;
  state.walk->placement = state.moves->placement();
  state.card.count("walks");
  go_on();
}

void kv_mover_core::end_walk() {
  kv_mover_state& state = self_->state;
  state.moves->walked(state.walk->kind, state.walk->waiting, now());
  state.last_seen = state.walk->seen;
  state.last_waiting = state.walk->waiting;
  state.walk.reset();
}

/// What was decided does not hold any more; what is on its way ends by itself.
void kv_mover_core::give_up_walk() {
  kv_mover_state& state = self_->state;
  ++state.turn;
  state.walk.reset();
  state.group.reset();
  state.card.count("walks_given_up");
}

void kv_mover_core::stop() {
  self_->state.stopped = true;
  if (self_->state.walk) give_up_walk();
}

void kv_mover_core::go_on(std::chrono::nanoseconds pause) {
  if (pause.count() <= 0)
    self_->send(self_, mover_step{self_->state.turn});
  else
    self_->delayed_send(self_, pause, mover_step{self_->state.turn});
}

void kv_mover_core::work(std::function<void()> run, std::function<void(bool goes_on)> then) {
  kv_mover_state& state = self_->state;
  ++state.open;
  state.then = [self = self_, turn = state.turn, then = std::move(then)] {
    then(turn == self->state.turn);
  };
  self_->send(state.io, io_work{state.turn, std::move(run), io_sink_actor{kv_mover_actor{self_}}});
  state.card.sent(state.io);
}

void kv_mover_core::work_done() {
  kv_mover_state& state = self_->state;
  if (!state.then) return;
  --state.open;
  std::exchange(state.then, nullptr)();
}

// ---- purges

void kv_mover_core::remember_sent(const storage::block_key& owner,
                                  storage::scope_id scope,
                                  std::chrono::nanoseconds read_at) {
  kv_mover_state& state = self_->state;
  if (state.sent.size() >= most_sent && !state.sent.contains({owner, scope})) {
    const auto earlier = [](const auto& a, const auto& b) { return a.second < b.second; };
    state.sent.erase(std::min_element(state.sent.begin(), state.sent.end(), earlier));
  }
  state.sent[{owner, scope}] = now();
  const auto purged = state.purged.find(scope);
  if (purged != state.purged.end() && purged->second >= read_at)  // between reading and sending
    state.purges_due[{owner, scope}] = std::nullopt;
}

/// A scope that is purged here while some of it is on its way, or was sent lately, may arrive where
/// the purge was already (SEC-4). It is purged there once more; blocks that belong to the scope by
/// then are lost. Groups that were given away count as well: what was purged here meanwhile looks
/// the same.
void kv_mover_core::follow_purges() {
  kv_mover_state& state = self_->state;
  const auto is_over = [time = now()](const auto& entry) {
    return time - entry.second > purges_followed;
  };
  std::erase_if(state.sent, is_over);
  std::erase_if(state.purged, is_over);
  for (const storage::scope_id scope : state.setup.backing.purges->take()) {
    state.purged[scope] = now();
    for (const auto& [target, at] : state.sent)
      if (target.second == scope) state.purges_due[target] = std::nullopt;
  }
  ask_to_purge();
}

void kv_mover_core::ask_to_purge() {
  kv_mover_state& state = self_->state;
  if (state.open > 0) return;  // what is on its way arrives first
  for (auto at = state.purges_due.begin(); at != state.purges_due.end();) {
    auto& [target, asked] = *at;
    if (!asked) asked = now();
    if (now() - *asked < purges_followed) {
      ask_to_purge(target.first, target.second);
      ++at;
    } else {
      state.card.count("purges_unanswered");
      at = state.purges_due.erase(at);
    }
  }
}

void kv_mover_core::ask_to_purge(const storage::block_key& owner, storage::scope_id scope) {
  kv_mover_state& state = self_->state;
  const auto there = state.directory.find(*state.setup.hub, owner);
  if (!there || !state.purges_asked.emplace(owner, scope).second) return;
  wire::draft<wire::KvPurge> out;
  out->setScope(static_cast<uint64_t>(scope));
  self_->request(*there, state.setup.config.put_deadline, out.freeze())
      .then(
          [self = self_, owner, scope, asked = now()](const wire::msg<wire::KvPurged>&) {
            kv_mover_state& after = self->state;
            after.purges_asked.erase({owner, scope});
            after.purges_due.erase({owner, scope});
            // or two stores that sent to each other would ask each other again and again
            const auto sent = after.sent.find({owner, scope});
            if (sent != after.sent.end() && sent->second <= asked) after.sent.erase(sent);
            after.card.count("purges_followed");
          },
          [self = self_, owner, scope](const caf::error&) {  // again with the next tick
            self->state.purges_asked.erase({owner, scope});
          });
  state.card.sent(*there);
}

// Gauges are read from the state at the moment of the question, so they cannot drift from it.
wire::msg<wire::ActorInfo> kv_mover_core::inspect() {
  kv_mover_state& state = self_->state;
  const bool walks = state.walk.has_value();
  const std::pair<const char*, uint64_t> gauges[] = {
      {"stores", state.moves->stores()},
      {"disagree", state.moves->agree() ? 0 : 1},
      {"walking", walks ? 1 : 0},
      {"groups_seen", walks ? state.walk->seen : state.last_seen},
      {"groups_waiting", walks ? state.walk->waiting : state.last_waiting},
      {"groups_leaving", walks ? state.walk->leaving.size() : 0},
      {"staged_bytes", state.staging->leases().used_bytes()}};
  for (const auto& [name, value] : gauges) state.card.set(name, static_cast<int64_t>(value));
  return state.card.info(*self_, describe(state));
}

kv_mover_actor::behavior_type kv_mover(kv_mover_actor::stateful_pointer<kv_mover_state> self,
                                       const kv_mover_setup& setup) {
  using core = kv_mover_core;
  if (const auto ready = core{self}.start(setup); !ready) {
    self->quit(to_caf(ready.error()));
    return kv_mover_actor::behavior_type::make_empty_behavior();
  }
  return {
      [self](const wire::msg<wire::Members>& msg) { core{self}.members(msg.get()); },
      // The answer to a write follows, and says the same.
      [](const wire::msg<wire::LeaseRelease>&) {},
      [self](const mover_tick&) { core{self}.tick(); },
      [self](const mover_step& next) { core{self}.step(next.turn); },
      [self](const io_done&) { core{self}.work_done(); },
      [self](const stop_moving&) { core{self}.stop(); },
      [self](const wire::msg<wire::Inspect>&) { return core{self}.inspect(); },
  };
}

}  // namespace deepinfer
