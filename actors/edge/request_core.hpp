#pragma once

#include "actors/edge/request.hpp"

#include <string>

namespace deepinfer {

/// Carries out what the request machine decides; a view over the actor's state, made anew in each
/// handler.
class request_core {
public:
  using self_ptr = request_actor::stateful_pointer<request_state_data>;

  explicit request_core(self_ptr self) : self_(self) {}

  void start();
  void encoded(const encode_answer& answer);
  void apply(const schedule::effects& list);
  /// An engine or the process is gone.
  void down(const caf::actor_addr& source);
  void ready(const wire::msg<wire::SequenceReady>& msg);
  void tokens(wire::Tokens::Reader msg);
  void drained();
  void tick();
  void ask(const schedule::ask_route& what);
  /// Ends the actor; nothing may be done with it afterwards.
  void quit();

  [[nodiscard]] std::chrono::nanoseconds now() const {
    return self_->clock().now().time_since_epoch();
  }

private:
  void run(const schedule::ask_route& what);
  void run(const schedule::submit_prefill& what);
  void run(const schedule::submit_decode& what);
  void run(const schedule::cancel_leg& what);
  void run(const schedule::release_sequence& what);
  void run(const schedule::grant_credit& what);
  void run(const schedule::emit_tokens& what);
  void run(const schedule::end_request& what);

  /// Of the whole request, at least one.
  [[nodiscard]] uint32_t time_left_ms() const;
  /// Sends a leg to its engine; the answer goes to the machine.
  template <class Message>
  void submit(const schedule::engine_key& key,
              leg_epoch leg,
              std::chrono::milliseconds within,
              const wire::msg<Message>& what);
  [[nodiscard]] engine_actor* engine(const schedule::engine_key& key);
  void routed(schedule::engine_role role, const actor_ref& ref);
  void begin_stream();
  /// Sends, or keeps until the connection takes more.
  void write(const std::string& bytes);
  void flush();
  void refuse(const recipe::api_error& error);
  void finish_stream(const schedule::end_request& what);
  void stop_if_matched();
  [[nodiscard]] choice_result result_of(const schedule::end_request& what) const;
  [[nodiscard]] answer_usage usage() const;
  void observe(uint32_t count);
  void release(const wire::msg<wire::SequenceReady>& ready);

  self_ptr self_;
};

}  // namespace deepinfer
