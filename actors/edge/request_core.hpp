#pragma once

#include "actors/edge/request.hpp"

#include <string>

namespace deepinfer {

/// What the choices of a request share: prompt, client, connection, deadline, end. A view over the
/// actor's state, made anew in each handler; `choice_core` moves each choice.
class request_core {
public:
  using self_ptr = request_actor::stateful_pointer<request_state_data>;

  explicit request_core(self_ptr self) : self_(self) {}

  void start();
  void encoded(const encode_answer& answer);
  /// An engine or the process is gone.
  void down(const caf::actor_addr& source);
  void ready(const wire::msg<wire::SequenceReady>& msg);
  void tokens(wire::Tokens::Reader msg);
  void drained();
  void tick();
  /// Client gone, shutdown: ends all choices.
  void stop(schedule::end_reason reason, const failure& why);
  /// Ends the actor; nothing may be done with it afterwards.
  void quit();

  /// New outputs of a choice, for the client.
  void emit(choice_state& choice, const fed_tokens& what);
  /// A choice has ended. The answer ends with the last of them, or with the first that failed.
  void choice_over(const choice_state& choice, const schedule::end_request& what);
  /// Of the whole request, at least one.
  [[nodiscard]] uint32_t time_left_ms() const;

private:
  /// Takes a place for every choice, or says why not.
  [[nodiscard]] std::optional<recipe::api_error> admit();
  /// Asks what is stored of the prompt, for all choices; the only thing between the prompt and the
  /// choice of an engine.
  void match();
  void route(const wire::msg<wire::CacheHint>& hint);
  void make_choices(const wire::msg<wire::CacheHint>& hint);
  [[nodiscard]] choice_state* choice_of(wire::RequestKey::Reader key);
  void begin_stream();
  /// Sends, or keeps until the connection takes more.
  void write(const std::string& bytes);
  void flush();
  void refuse(const recipe::api_error& error);
  /// All there is to say to the client, in one piece; ends the actor, now or once it is taken.
  void respond(uint16_t status, std::string body, http_headers more = {});
  void keep_alive();
  void fail(const failure& why);
  void log_failure(const choice_state& choice, const failure& why);
  void finish_stream();
  [[nodiscard]] uint32_t output_tokens() const;
  [[nodiscard]] answer_usage usage() const;
  void observe(choice_state& choice, size_t count);

  [[nodiscard]] std::chrono::nanoseconds now() const {
    return self_->clock().now().time_since_epoch();
  }

  self_ptr self_;
};

}  // namespace deepinfer
