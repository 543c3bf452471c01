#include "actors/control/balancer.hpp"

#include "actors/messages/errors.hpp"

#include <set>
#include <vector>

namespace deepinfer {
namespace {

using self_ptr = balancer_impl_actor::stateful_pointer<balancer_state>;
using policy::engine_key;

std::chrono::nanoseconds now_of(self_ptr self) {
  return self->clock().now().time_since_epoch();
}

engine_key key_of(const actor_ref& ref) {
  return {ref.node, ref.actor};
}

void tell_gateway(self_ptr self) {
  balancer_state& state = self->state;
  const auto accepting = static_cast<uint32_t>(state.table.accepting(now_of(self)));
  if (accepting == state.told_accepting || !state.setup.gateway) return;
  state.told_accepting = accepting;
  self->send(state.setup.gateway, engines_available{state.setup.role, accepting});
  state.card.sent(state.setup.gateway);
}

void subscribe(self_ptr self, const actor_ref& ref) {
  balancer_state& state = self->state;
  const auto handle = state.setup.hub->resolve<engine_actor>(ref);
  if (!handle) return;  // gone again; the next table says so
  state.engines.emplace(key_of(ref), ref);
  state.table.add(key_of(ref));
  wire::draft<wire::LoadSubscribe> subscribe;
  write_ref(subscribe->initSubscriber(), state.self_ref);
  self->send(*handle, subscribe.freeze());
  state.card.sent(*handle);
}

void on_members(self_ptr self, const wire::Members::Reader& members) {
  balancer_state& state = self->state;
  std::set<engine_key> present;
  for (const auto record : members.getRecords()) {
    // While this node leaves, its own engines still finish what its own gateway has admitted.
    const bool own = record.getId().getHi() == members.getSelf().getHi() &&
                     record.getId().getLo() == members.getSelf().getLo();
    if (record.getState() != wire::NodeState::ALIVE && !own) continue;
    for (const auto service : record.getServices()) {
      if (service.getKind() != state.setup.role.c_str()) continue;
      if (service.getModel() != state.setup.model.c_str()) {
        state.card.count("engines_of_other_models");
        continue;
      }
      const actor_ref ref = read_ref(service.getActor());
      present.insert(key_of(ref));
      if (!state.engines.contains(key_of(ref))) subscribe(self, ref);
    }
  }
  std::erase_if(state.engines, [&](const auto& entry) {
    if (present.contains(entry.first)) return false;
    state.table.remove(entry.first);
    return true;
  });
  tell_gateway(self);
}

void on_report(self_ptr self, const wire::LoadReport::Reader& report) {
  const actor_ref ref = read_ref(report.getEngine());
  self->state.table.apply(key_of(ref),
                          {report.getNumber(), report.getAccepting(), report.getQueuedTokens(),
                           report.getRunningSequences(), report.getMaxSequences(),
                           report.getContextTokens(), report.getFreeTokens()},
                          now_of(self));
  self->state.card.count("reports");
  tell_gateway(self);
}

caf::result<wire::msg<wire::RouteReply>> on_route(self_ptr self,
                                                  const wire::RouteQuery::Reader& query) {
  balancer_state& state = self->state;
  std::vector<engine_key> exclude;
  for (const auto ref : query.getExclude()) exclude.push_back(key_of(read_ref(ref)));
  const policy::route_request what{query.getPromptTokens(), query.getMaxTokens()};
  if (state.table.size() == 0)
    return to_caf({error_code::no_capacity,
                   "no " + state.setup.role +
                       " engine is in the cluster: start a node with --roles " + state.setup.role});
  const auto chosen = state.table.choose(*state.setup.policy, what, exclude, now_of(self));
  if (!chosen) {
    state.card.count("refused");
    return to_caf(chosen.error());
  }
  state.table.placed(*chosen, what, now_of(self));
  state.card.count("routed");
  wire::draft<wire::RouteReply> reply;
  write_ref(reply->initEngine(), state.engines.at(*chosen));
  return reply.freeze();
}

}  // namespace

balancer_impl_actor::behavior_type balancer(
    balancer_impl_actor::stateful_pointer<balancer_state> self, const balancer_setup& setup) {
  balancer_state& state = self->state;
  state.setup = setup;
  state.card = actor_card{setup.role + "_balancer", *setup.hub};
  state.table = policy::engine_table{setup.config.table};
  if (const auto ref = setup.hub->export_actor(load_sink_actor{self})) state.self_ref = *ref;
  self->delayed_send(self, setup.config.table.silent_after, balancer_tick{});
  return {
      [self](const wire::msg<wire::RouteQuery>& msg) { return on_route(self, msg.get()); },
      [self](const wire::msg<wire::LoadReport>& msg) { on_report(self, msg.get()); },
      [self](const wire::msg<wire::Members>& msg) { on_members(self, msg.get()); },
      [self](const wire::msg<wire::Inspect>&) {
        const auto& table = self->state.table;
        return self->state.card.info(*self, std::to_string(table.accepting(now_of(self))) + " of " +
                                                std::to_string(table.size()) + " engines accept");
      },
      [self](const balancer_tick&) {
        tell_gateway(self);  // an engine may have fallen silent
        self->delayed_send(self, self->state.setup.config.table.silent_after, balancer_tick{});
      },
  };
}

}  // namespace deepinfer
