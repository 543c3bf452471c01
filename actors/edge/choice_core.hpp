#pragma once

#include "actors/edge/request.hpp"

#include <vector>

namespace deepinfer {

/// Carries out what the machine of one choice decides; a view over the actor's state, made anew in
/// each handler. What all choices share (client, connection, end) is `request_core`'s.
class choice_core {
public:
  using self_ptr = request_actor::stateful_pointer<request_state_data>;

  choice_core(self_ptr self, uint32_t number) : self_(self), choice_(self->state.choices[number]) {}

  void start();
  void ready(const wire::msg<wire::SequenceReady>& msg);
  void tokens(wire::Tokens::Reader msg);
  void ask(const schedule::ask_route& what);
  /// Asks again, if the answer is still wanted.
  void ask_again(const schedule::ask_route& what);
  void engine_down(const schedule::engine_key& engine);
  /// The connection has taken everything.
  void drained();
  void tick();
  /// Frees what engines hold for this choice.
  void stop(schedule::end_reason reason, const failure& why);

private:
  void apply(const schedule::effects& list);
  void run(const schedule::ask_route& what);
  void run(const schedule::submit_prefill& what);
  void run(const schedule::submit_decode& what);
  void run(const schedule::cancel_leg& what);
  void run(const schedule::release_sequence& what);
  void run(const schedule::grant_credit& what);
  void run(const schedule::emit_tokens& what);
  void run(const schedule::end_request& what);

  /// Sends a leg to its engine; the answer goes to the machine.
  template <class Message>
  void submit(const schedule::engine_key& key,
              leg_epoch leg,
              std::chrono::milliseconds within,
              const wire::msg<Message>& what);
  /// Looks up the prompt and what was put out behind it, then asks for a prefill engine.
  void match_again(const schedule::ask_route& what);
  [[nodiscard]] std::vector<int32_t> all_tokens() const;
  void note_cached(wire::SequenceReady::Reader in);
  [[nodiscard]] engine_actor* engine(const schedule::engine_key& key);
  void routed(schedule::engine_role role, const actor_ref& ref);
  void stop_if_matched();

  [[nodiscard]] std::chrono::nanoseconds now() const {
    return self_->clock().now().time_since_epoch();
  }

  self_ptr self_;
  choice_state& choice_;
};

/// Gives a sequence back to the prefill engine that holds it.
void release_sequence_of(choice_core::self_ptr self, const wire::msg<wire::SequenceReady>& ready);

}  // namespace deepinfer
