#include "actors/cache/kv_io.hpp"

namespace deepinfer {

kv_io_actor::behavior_type kv_io(kv_io_actor::stateful_pointer<kv_io_state> self,
                                 const remote_hub& hub) {
  self->state.card = actor_card{"kv_io", hub};
  return {
      [self](const io_work& work) {
        self->state.card.count("works");
        work.run();
        self->send(work.reply_to, io_done{work.number});
        self->state.card.sent(work.reply_to);
      },
      [self](const wire::msg<wire::Inspect>&) { return self->state.card.info(*self, "idle"); },
  };
}

}  // namespace deepinfer
