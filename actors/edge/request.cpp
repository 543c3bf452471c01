#include "actors/edge/request.hpp"

#include "actors/edge/choice_core.hpp"
#include "actors/edge/request_core.hpp"

#include <string>

namespace deepinfer {
namespace {

using self_ptr = request_actor::stateful_pointer<request_state_data>;

std::string describe(const choice_state& choice) {
  return std::string{to_string(choice.machine.state())} + ", leg " +
         std::to_string(static_cast<uint32_t>(choice.machine.leg())) + ", " +
         std::to_string(choice.emitted.size()) + " tokens out";
}

std::string describe(const request_state_data& state) {
  if (state.choices.empty()) return "encoding";
  std::string line;
  if (state.choices.size() == 1)
    line = describe(state.choices.front());
  else
    for (const choice_state& choice : state.choices)
      line += (line.empty() ? "" : "; ") + std::string{"choice "} + std::to_string(choice.number) +
              " " + describe(choice);
  return line + ", " + std::to_string(state.exchange->tokens.size()) + " in";
}

// The callbacks run on the listener's thread; they hold the actor only weakly, since the responder
// that holds them is itself held by the actor.
void watch_client(self_ptr self) {
  const caf::weak_actor_ptr me{self->ctrl()};
  auto& responder = *self->state.client.responder;
  responder.on_drain([me] {
    if (const auto strong = me.lock())
      caf::anon_send(caf::actor_cast<request_actor>(strong), client_drained{});
  });
  responder.on_closed([me](const failure& why) {
    if (const auto strong = me.lock())
      caf::anon_send(caf::actor_cast<request_actor>(strong), client_gone{why});
  });
}

}  // namespace

request_actor::behavior_type request(request_actor::stateful_pointer<request_state_data> self,
                                     const std::shared_ptr<const request_setup>& setup,
                                     const http_exchange& client,
                                     const exchange_context& context) {
  request_state_data& state = self->state;
  state.setup = setup;
  state.id = context.id;
  state.context = context;
  state.client = client;
  state.card = actor_card{"request", *setup->hub};
  if (const auto ref = setup->hub->export_actor(leg_sink_actor{self})) state.sink_ref = *ref;
  self->set_down_handler(
      [self](const caf::down_msg& down) { request_core{self}.down(down.source); });
  watch_client(self);
  request_core{self}.start();
  self->delayed_send(self, tick_interval(setup->config), request_tick{});
  return {
      [self](const wire::msg<wire::SequenceReady>& msg) { request_core{self}.ready(msg); },
      [self](const wire::msg<wire::Tokens>& msg) { request_core{self}.tokens(msg.get()); },
      [self](const client_gone& gone) {
        request_core{self}.stop(schedule::end_reason::cancelled, gone.why);
      },
      [self](const client_drained&) { request_core{self}.drained(); },
      [self](const route_again& again) {
        choice_core{self, again.choice}.ask_again(again.what);
      },
      [self](const request_tick&) { request_core{self}.tick(); },
      [self](const stop_request& stop) {
        request_core{self}.stop(schedule::end_reason::failed, stop.why);
      },
      [self](const wire::msg<wire::Inspect>&) {
        return self->state.card.info(*self, describe(self->state));
      },
  };
}

}  // namespace deepinfer
