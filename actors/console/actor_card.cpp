#include "actors/console/actor_card.hpp"

#include "proto/codec/msg.hpp"

#include <caf/actor_addr.hpp>
#include <caf/scheduled_actor.hpp>

namespace deepinfer {
namespace {

constexpr size_t max_peers = 256;

void write_id(wire::Id128::Builder out, const node_id& id) {
  out.setHi(id.hi);
  out.setLo(id.lo);
}

}  // namespace

void actor_card::count(std::string_view name, int64_t more) {
  const auto found = counters_.find(name);
  if (found != counters_.end()) {
    found->second += more;
  } else {
    counters_.emplace(name, more);
  }
}

void actor_card::set(std::string_view name, int64_t value) {
  const auto found = counters_.find(name);
  if (found != counters_.end()) {
    found->second = value;
  } else {
    counters_.emplace(name, value);
  }
}

void actor_card::sent_to(const caf::strong_actor_ptr& to) {
  const auto address = caf::actor_cast<caf::actor_addr>(to);
  const auto found = peers_.find(address);
  if (found != peers_.end()) {
    ++found->second.messages;
  } else if (peers_.size() < max_peers) {
    peers_.emplace(address, peer{hub_->locate(to), 1});
  } else {
    ++to_others_;
  }
}

wire::msg<wire::ActorInfo> actor_card::info(caf::local_actor& self, std::string_view state) const {
  wire::draft<wire::ActorInfo> out;
  out->setKind(kind_);
  const actor_ref me = hub_->locate(caf::actor_cast<caf::strong_actor_ptr>(&self));
  out->setId(me.actor);
  write_id(out->initNode(), me.node);
  out->setState(kj::StringPtr{std::string{state}.c_str()});
  if (const auto* scheduled = dynamic_cast<const caf::scheduled_actor*>(&self))
    out->setMailbox(
        static_cast<uint32_t>(const_cast<caf::scheduled_actor*>(scheduled)->mailbox().size()));
  auto counters = out->initCounters(static_cast<uint32_t>(counters_.size()));
  uint32_t i = 0;
  for (const auto& [name, value] : counters_) {
    counters[i].setName(name);
    counters[i++].setValue(value);
  }
  auto peers = out->initPeers(static_cast<uint32_t>(peers_.size()) + (to_others_ > 0 ? 1 : 0));
  i = 0;
  for (const auto& [address, to] : peers_) {
    write_id(peers[i].initNode(), to.where.node);
    peers[i].setActor(to.where.actor);
    peers[i++].setMessages(to.messages);
  }
  if (to_others_ > 0) peers[i].setMessages(to_others_);  // actor 0: all others together
  return out.freeze();
}

}  // namespace deepinfer
