#include "actors/control/membership.hpp"

#include "actors/control/member_wire.hpp"

#include <algorithm>

namespace deepinfer {
namespace {

using self_ptr = membership_impl_actor::stateful_pointer<membership_state>;

std::chrono::nanoseconds now_of(self_ptr self) {
  return self->clock().now().time_since_epoch();
}

std::vector<policy::member_record> current_members(self_ptr self) {
  auto members = self->state.table->members();
  members.front().uptime =
      std::chrono::duration_cast<std::chrono::milliseconds>(now_of(self) - self->state.started);
  return members;
}

wire::msg<wire::Members> members_message(self_ptr self) {
  const auto& table = *self->state.table;
  const auto members = current_members(self);
  wire::draft<wire::Members> out;
  out->initSelf().setHi(table.self().id.hi);
  out->getSelf().setLo(table.self().id.lo);
  out->setCluster(self->state.setup.cluster);
  auto records = out->initRecords(static_cast<uint32_t>(members.size()));
  for (uint32_t i = 0; i < members.size(); ++i) write_record(records[i], members[i]);
  out->initCoordinator().setHi(table.coordinator().hi);
  out->getCoordinator().setLo(table.coordinator().lo);
  out->setMajority(table.majority());
  return out.freeze();
}

wire::msg<wire::Gossip> gossip_message(self_ptr self) {
  const auto& table = *self->state.table;
  const auto members = current_members(self);
  wire::draft<wire::Gossip> out;
  out->initSender().setHi(table.self().id.hi);
  out->getSender().setLo(table.self().id.lo);
  out->setCluster(self->state.setup.cluster);
  auto records = out->initRecords(static_cast<uint32_t>(members.size()));
  for (uint32_t i = 0; i < members.size(); ++i) write_record(records[i], members[i]);
  out->initCoordinator().setHi(table.coordinator().hi);
  out->getCoordinator().setLo(table.coordinator().lo);
  return out.freeze();
}

void gossip(self_ptr self) {
  membership_state& state = self->state;
  const auto message = gossip_message(self);
  for (const node_id& peer : state.table->links()) {
    const auto handle =
        state.setup.hub->well_known<membership_actor>(peer, membership_actor_number);
    if (!handle) continue;  // the link was lost a moment ago
    self->send(*handle, message);
    state.card.sent(*handle);
  }
}

// Everybody who cares hears of a change at once: subscribers here, peers by gossip.
void tell_changes(self_ptr self) {
  membership_state& state = self->state;
  if (state.table->changes() == state.told_changes) return;
  state.told_changes = state.table->changes();
  const auto message = members_message(self);
  for (const auto& subscriber : state.subscribers) {
    self->send(subscriber, message);
    state.card.sent(subscriber);
  }
  gossip(self);
}

void dial_due(self_ptr self) {
  for (const auto& address : self->state.table->due_dials(now_of(self))) {
    self->state.card.count("dials");
    self->state.setup.transport->dial(address);
  }
}

void ask_registries(self_ptr self) {
  membership_state& state = self->state;
  for (const auto& registry : state.setup.registries) {
    const auto found = registry->discover(now_of(self));
    if (!found) {
      state.card.count("registry_errors");
      continue;  // silence of a registry proves nothing
    }
    for (const auto& address : *found) state.table->learn_address(address, now_of(self));
    if (!registry->proves_death()) continue;
    // A name that is gone belongs to a process that has ended: its lock was released by the kernel.
    // It is kept until the table has taken it in, which it does once the link is down.
    const std::set<std::string> named(found->begin(), found->end());
    std::erase_if(state.registered, [&](const std::string& address) {
      return !named.contains(address) && state.table->confirm_dead(address);
    });
    state.registered.insert(named.begin(), named.end());
  }
}

void on_tick(self_ptr self) {
  membership_state& state = self->state;
  ask_registries(self);
  state.setup.hub->sweep();
  state.table->sweep(now_of(self));
  dial_due(self);
  tell_changes(self);
  gossip(self);
  self->delayed_send(self, state.setup.config.gossip_every, membership_tick{});
}

void on_gossip(self_ptr self, const wire::Gossip::Reader& msg) {
  const node_id sender{msg.getSender().getHi(), msg.getSender().getLo()};
  if (msg.getCluster() != self->state.setup.cluster.c_str() || !self->state.table->linked(sender))
    return;
  self->state.table->apply(sender, read_records(msg.getRecords()), now_of(self));
  dial_due(self);
  tell_changes(self);
}

void on_watch(self_ptr self, const members_sink_actor& subscriber) {
  self->state.subscribers.push_back(subscriber);
  self->send(subscriber, members_message(self));
  self->state.card.sent(subscriber);
}

std::string describe(const membership_state& state) {
  return std::to_string(state.table->links().size()) + " peers linked, coordinator " +
         to_string(state.table->coordinator()).substr(0, 8) +
         (state.table->majority() ? "" : ", minority");
}

void start(self_ptr self, const membership_setup& setup) {
  membership_state& state = self->state;
  state.setup = setup;
  state.card = actor_card{"membership", *setup.hub};
  state.table = std::make_unique<policy::membership_table>(setup.self, setup.config.table);
  state.started = now_of(self);
  for (const auto& seed : setup.seeds) state.table->add_seed(seed, state.started);
  for (const auto& registry : setup.registries)
    if (!registry->announce({setup.self.id, setup.self.epoch, setup.self.address}))
      state.card.count("registry_errors");
  self->send(self, membership_tick{});
}

}  // namespace

membership_impl_actor::behavior_type membership(
    membership_impl_actor::stateful_pointer<membership_state> self, const membership_setup& setup) {
  start(self, setup);
  return {
      [self](const wire::msg<wire::Gossip>& msg) { on_gossip(self, msg.get()); },
      [self](const wire::msg<wire::MembersQuery>&) { return members_message(self); },
      [self](const wire::msg<wire::Inspect>&) {
        return self->state.card.info(*self, describe(self->state));
      },
      [self](const peer_linked& peer) {
        self->state.table->link_up(peer.peer, peer.epoch, peer.address, now_of(self));
        tell_changes(self);
      },
      [self](const peer_lost& peer) {
        self->state.table->link_down(peer.peer, now_of(self));
        ask_registries(self);
        tell_changes(self);
        dial_due(self);
      },
      [self](const peer_dial_failed& dial) {
        self->state.table->dial_failed(dial.address, now_of(self));
      },
      [self](const offer_service& offer) {
        self->state.services.push_back(offer.service);
        self->state.table->set_services(self->state.services);
        tell_changes(self);
      },
      [self](const watch_members& watch) { on_watch(self, watch.subscriber); },
      [self](const leave_cluster&) {
        self->state.table->leave();
        tell_changes(self);
        for (const auto& registry : self->state.setup.registries) registry->withdraw();
        return wire::msg<wire::Ack>{};
      },
      [self](const membership_tick&) { on_tick(self); },
  };
}

}  // namespace deepinfer
