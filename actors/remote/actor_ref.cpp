#include "actors/remote/actor_ref.hpp"

namespace deepinfer {

actor_ref read_ref(wire::ActorRef::Reader from) {
  const auto node = from.getNode();
  return {node_id{node.getHi(), node.getLo()}, from.getActor(), from.getInterface()};
}

void write_ref(wire::ActorRef::Builder into, const actor_ref& ref) {
  auto node = into.initNode();
  node.setHi(ref.node.hi);
  node.setLo(ref.node.lo);
  into.setActor(ref.actor);
  into.setInterface(ref.interface);
}

std::string to_string(const actor_ref& ref) {
  return std::to_string(ref.actor) + "@" + to_string(ref.node).substr(0, 8);
}

}  // namespace deepinfer
