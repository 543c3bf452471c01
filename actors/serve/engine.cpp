#include "actors/serve/engine.hpp"

#include "actors/messages/errors.hpp"
#include "actors/serve/engine_core.hpp"
#include "actors/serve/sequence_wire.hpp"

#include <algorithm>
#include <string>

namespace deepinfer {
namespace {

using self_ptr = engine_impl_actor::stateful_pointer<engine_state>;

void schedule_tick(self_ptr self) {
  const auto& config = self->state.setup.config;
  const bool busy = !self->state.sequences.empty();
  self->delayed_send(self, busy ? config.report_busy : config.report_idle, engine_tick{});
}

void on_cancel(self_ptr self, const wire::Cancel::Reader& msg) {
  engine_core core{self};
  const request_id request = read_request_id(msg.getKey());
  // A sequence that was handed over a moment ago, and that nobody will fetch any more.
  core.forget_staged(request, read_leg(msg.getKey()));
  const auto found = self->state.by_request.find(request);
  if (found == self->state.by_request.end()) return;
  if (self->state.sequences.at(found->second).leg != read_leg(msg.getKey())) return;
  self->state.card.count("cancelled");
  core.drop(found->second);
}

void on_credit(self_ptr self, const wire::Credit::Reader& msg) {
  const auto found = self->state.by_request.find(read_request_id(msg.getKey()));
  if (found == self->state.by_request.end()) return;
  if (self->state.sequences.at(found->second).leg != read_leg(msg.getKey())) return;
  engine_core{self}.grant(found->second, msg.getTokens());
}

void on_subscribe(self_ptr self, const wire::LoadSubscribe::Reader& msg) {
  auto subscriber = self->state.setup.hub->resolve<load_sink_actor>(read_ref(msg.getSubscriber()));
  if (!subscriber) return;
  auto& all = self->state.subscribers;
  if (std::find(all.begin(), all.end(), *subscriber) != all.end()) return;
  self->monitor(*subscriber);
  all.push_back(*subscriber);
  engine_core{self}.report();
}

// A subscriber or the receiver of a sequence is gone.
void on_down(self_ptr self, const caf::down_msg& down) {
  std::erase_if(self->state.subscribers, [&](const auto& s) { return s.address() == down.source; });
  engine_core{self}.receiver_gone(down.source);
}

std::string describe(const engine_state& state) {
  const auto load = state.planner.load();
  return std::to_string(load.running) + " running, " + std::to_string(load.waiting) + " waiting, " +
         std::to_string(load.queued_tokens) + " tokens queued, " +
         std::to_string(load.steps_in_flight) + " steps in flight, " +
         std::to_string(state.staging->leases().live()) + " sequences staged";
}

// Gauges are read from the state at the moment of the question, so they cannot drift from it.
void set_gauges(engine_state& state) {
  const auto load = state.planner.load();
  state.card.set("sequences", static_cast<int64_t>(state.sequences.size()));
  state.card.set("requests_known", static_cast<int64_t>(state.by_request.size()));
  state.card.set("waiting", load.waiting);
  state.card.set("steps_in_flight", load.steps_in_flight);
  state.card.set("queued_tokens", static_cast<int64_t>(load.queued_tokens));
  state.card.set("free_tokens", static_cast<int64_t>(load.free_tokens));
  state.card.set("state_tokens", static_cast<int64_t>(state.setup.config.planner.state_tokens));
  state.card.set("receivers", static_cast<int64_t>(state.watched.size()));
  state.card.set("transfers", static_cast<int64_t>(state.transfers.size()));
  state.card.set("ring_pulls", state.ring_pulls);
  state.card.set("fetchers", state.fetch ? 1 : 0);
  state.card.set("arenas_mapped", static_cast<int64_t>(state.arenas->kept()));
  state.card.set("handovers_read_out", static_cast<int64_t>(state.read_outs.size()));
  state.card.set("staged", static_cast<int64_t>(state.staging->leases().live()));
  state.card.set("staged_bytes", static_cast<int64_t>(state.staging->leases().used_bytes()));
}

void on_tick(self_ptr self) {
  engine_core core{self};
  core.expire();
  core.report();
  core.pump();
  schedule_tick(self);
}

}  // namespace

engine_impl_actor::behavior_type engine(engine_impl_actor::stateful_pointer<engine_state> self,
                                        const engine_setup& setup) {
  engine_core core{self};
  if (const auto ready = core.start(setup); !ready) {
    self->quit(to_caf(ready.error()));
    return engine_impl_actor::behavior_type::make_empty_behavior();
  }
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  schedule_tick(self);
  return {
      [self](const wire::msg<wire::PrefillSubmit>& msg) -> caf::result<wire::msg<wire::Accepted>> {
        const auto accepted = engine_core{self}.prefill(msg.get());
        if (!accepted) return to_caf(accepted.error());
        return *accepted;
      },
      [self](const wire::msg<wire::DecodeSubmit>& msg) { return engine_core{self}.decode(msg); },
      [self](const wire::msg<wire::Cancel>& msg) { on_cancel(self, msg.get()); },
      [self](const wire::msg<wire::Credit>& msg) { on_credit(self, msg.get()); },
      [self](const wire::msg<wire::LoadSubscribe>& msg) { on_subscribe(self, msg.get()); },
      [self](const wire::msg<wire::LeaseRenew>& msg) {
        static_cast<void>(self->state.staging->leases().renew(
            msg.get().getId(), self->clock().now().time_since_epoch(),
            std::min<std::chrono::nanoseconds>(std::chrono::milliseconds(msg.get().getTtlMs()),
                                               self->state.setup.config.lease_ttl)));
      },
      [self](const wire::msg<wire::LeaseRelease>& msg) {
        engine_core{self}.release_lease(msg.get().getId());
      },
      [self](const wire::msg<wire::Inspect>&) {
        set_gauges(self->state);
        return self->state.card.info(*self, describe(self->state));
      },
      [self](const drain_engine&) { return engine_core{self}.drain(); },
      [self](step_done& done) { engine_core{self}.step_over(done); },
      [self](sequence_pulled& pulled) { engine_core{self}.pulled(pulled); },
      [self](rings_arrived& rings) { engine_core{self}.rings_pulled(std::move(rings)); },
      [self](const swap_checked& what) { engine_core{self}.hit_checked(what); },
      [self](const swap_begun& what) { engine_core{self}.begin_hit(what); },
      [self](const wire::msg<wire::Members>& table) { engine_core{self}.members(table.get()); },
      [self](const fetch_overdue& late) { engine_core{self}.fetch_overdue_at(late); },
      [self](const read_out_more&) { engine_core{self}.read_out_next(); },
      [self](const engine_tick&) { on_tick(self); },
  };
}

}  // namespace deepinfer
