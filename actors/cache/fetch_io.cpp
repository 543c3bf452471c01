#include "actors/cache/fetch_io.hpp"

namespace deepinfer {

fetch_io_actor::behavior_type fetch_io(fetch_io_actor::stateful_pointer<fetch_io_state> self,
                                       const remote_hub& hub) {
  self->state.card = actor_card{"fetch_io", hub};
  return {
      [self](const fetch_work& work) {
        self->state.card.count("works");
        work.run();
      },
      [self](const wire::msg<wire::Inspect>&) {
        return self->state.card.info(*self, "reads files and verifies blocks");
      },
  };
}

}  // namespace deepinfer
