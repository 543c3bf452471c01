#include "actors/node/node.hpp"

#include "actors/messages/errors.hpp"

namespace deepinfer {

node_actor::behavior_type node(node_actor::stateful_pointer<node_actor_state> self,
                               const node_actor_setup& setup) {
  self->state.card = actor_card{"node", *setup.hub};
  for (const auto& actor : setup.essential) self->monitor(actor);
  self->set_down_handler([self, on_loss = setup.on_loss](const caf::down_msg& down) {
    self->state.card.count("essential_actors_lost");
    if (self->state.lost) return;
    self->state.lost = true;
    on_loss(from_caf(down.reason));
  });
  return {
      [self, roles = setup.roles](const wire::msg<wire::Inspect>&) {
        return self->state.card.info(
            *self, self->state.lost ? "an essential actor is lost" : "serves " + roles);
      },
  };
}

}  // namespace deepinfer
