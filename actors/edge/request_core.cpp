#include "actors/edge/request_core.hpp"

#include "actors/edge/answer_headers.hpp"
#include "actors/edge/choice_core.hpp"
#include "actors/messages/errors.hpp"
#include "actors/serve/sequence_wire.hpp"
#include "proto/types/limits.hpp"
#include "runtime/schedule/choices.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer {

using namespace schedule;

namespace {

constexpr std::string_view event_stream = "text/event-stream; charset=utf-8";
constexpr std::string_view json = "application/json";

}  // namespace

void request_core::start() {
  auto& state = self_->state;
  state.started = state.last_bytes = now();
  self_
      ->request(state.setup->codec, state.setup->config.codec_within,
                encode_job{state.client.request, state.context, state.client.request->body.size()})
      .then([self = self_](const encode_answer& answer) { request_core{self}.encoded(answer); },
            [self = self_](const caf::error& e) {
              request_core{self}.refuse(recipe::to_api_error(from_caf(e)));
            });
  state.card.sent(state.setup->codec);
}

void request_core::encoded(const encode_answer& answer) {
  auto& state = self_->state;
  if (!answer.exchange) return refuse(answer.error);
  state.exchange = answer.exchange;
  if (state.exchange->answered) {
    state.ended = true;
    return respond(200, *std::move(state.exchange->answered));
  }
  if (const auto why = admit()) return refuse(*why);
  match();
}

void request_core::match() {
  const auto& setup = *self_->state.setup;
  if (!setup.check || !setup.cache.enabled) return route({});
  // The exchange keeps its tokens as long as anybody reads them.
  const auto& exchange = self_->state.exchange;
  const std::shared_ptr<const std::vector<int32_t>> tokens{exchange, &exchange->tokens};
  self_->request(setup.check, setup.cache.match_within, match_prompt{tokens, setup.party})
      .then([self =
                 self_](const wire::msg<wire::CacheHint>& hint) { request_core{self}.route(hint); },
            [self = self_](const caf::error&) {
              self->state.card.count("unmatched");
              request_core{self}.route({});
            });
  self_->state.card.sent(setup.check);
}

void request_core::route(const wire::msg<wire::CacheHint>& hint) {
  if (self_->state.ended) return;
  make_choices(hint);
  for (const choice_state& choice : self_->state.choices) choice_core{self_, choice.number}.start();
}

std::optional<recipe::api_error> request_core::admit() {
  const auto& state = self_->state;
  const uint32_t most = state.setup->config.max_choices, wanted = state.exchange->choices;
  if (wanted == 0 || wanted > most)
    return recipe::bad_request("n", "must be 1 to " + std::to_string(most) + " on this server");
  if (state.exchange->logprobs.value_or(0) > limits::max_alternatives)
    return recipe::bad_request("top_logprobs",
                               "must be at most " + std::to_string(limits::max_alternatives));
  if (wanted > 1 && !state.setup->places->take(wanted - 1))
    return recipe::api_error{503, "overloaded_error", "too_many_requests", "",
                             "Not enough places for so many choices (gateway.max_open_requests); "
                             "retry later, or ask for fewer."};
  return std::nullopt;
}

void request_core::make_choices(const wire::msg<wire::CacheHint>& hint) {
  auto& state = self_->state;
  const prepared_exchange& exchange = *state.exchange;
  const request_machine fresh{limits_of_choice(state.setup->config.limits, exchange.choices), now(),
                              state.started + state.setup->config.time_limit};
  state.choices.reserve(exchange.choices);
  for (uint32_t i = 0; i < exchange.choices; ++i) {
    choice_state& choice = state.choices.emplace_back(
        choice_state{i, choice_id(state.id, i), exchange.sampling, fresh});
    choice.hint = hint;
    choice.sampling.seed = choice_seed(exchange.sampling.seed, i);
    choice.sampling.logprobs = exchange.logprobs ? 1 + *exchange.logprobs : 0;
  }
}

choice_state* request_core::choice_of(wire::RequestKey::Reader key) {
  auto& choices = self_->state.choices;
  const request_id id = read_request_id(key);
  const auto found =
      std::find_if(choices.begin(), choices.end(), [&](const auto& c) { return c.id == id; });
  return found == choices.end() ? nullptr : &*found;
}

uint32_t request_core::time_left_ms() const {
  const auto& state = self_->state;
  const auto left = state.started + state.setup->config.time_limit - now();
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
  return static_cast<uint32_t>(std::max<int64_t>(1, whole));
}

void request_core::ready(const wire::msg<wire::SequenceReady>& msg) {
  const choice_state* choice = choice_of(msg.get().getKey());
  if (choice == nullptr) return release_sequence_of(self_, msg);
  choice_core{self_, choice->number}.ready(msg);
}

void request_core::tokens(wire::Tokens::Reader msg) {
  if (const choice_state* choice = choice_of(msg.getKey()))
    choice_core{self_, choice->number}.tokens(msg);
}

void request_core::down(const caf::actor_addr& source) {
  auto& state = self_->state;
  for (auto it = state.engines.begin(); it != state.engines.end(); ++it) {
    if (it->second.address() != source) continue;
    const engine_key key = it->first;
    for (const choice_state& choice : state.choices)
      choice_core{self_, choice.number}.engine_down(key);
    state.engines.erase(key);
    return;
  }
}

void request_core::emit(choice_state& choice, const fed_tokens& what) {
  auto& state = self_->state;
  const bool stream = state.exchange->stream;
  observe(choice, what.ids.size());
  choice.emitted.insert(choice.emitted.end(), what.ids.begin(), what.ids.end());
  state.card.count("tokens", static_cast<int64_t>(what.ids.size()));
  if (stream) begin_stream();
  const answer_writer::fed fed = state.exchange->writer->feed(what);
  if (stream) write(fed.bytes);
  choice.undrained += static_cast<uint32_t>(what.ids.size());
  if (state.unsent.empty() &&
      (!stream || state.client.responder->pending_bytes() <= state.setup->low_water_bytes))
    drained();
  // What follows in the same list of effects finds the machine done, and changes nothing.
  if (fed.finished) choice.stop_matched = true;
}

// Behind the empty lines that kept a connection open the status is out: it was 200.
void request_core::respond(uint16_t status, std::string body, http_headers more) {
  auto& state = self_->state;
  if (state.kept_alive) {
    write(body);
    return finish_stream();
  }
  static_cast<void>(state.client.responder->respond(status, json, std::move(body),
                                                    with_request_id(state.id, std::move(more))));
  quit();
}

void request_core::choice_over(const choice_state& choice, const end_request& what) {
  auto& state = self_->state;
  if (state.ended) return;  // the request is over: what engines held for its choices was freed
  if (what.reason == end_reason::failed) {
    log_failure(choice, what.why);
    return fail(what.why);
  }
  if (what.reason == end_reason::cancelled) return stop(what.reason, what.why);
  if (state.exchange->stream) begin_stream();
  std::string bytes =
      state.exchange->writer->end({choice.number, what.reason, state.setup->unix_time()}, usage());
  const bool last = std::all_of(state.choices.begin(), state.choices.end(),
                                [](const choice_state& c) { return c.over; });
  if (state.exchange->stream) write(bytes);
  if (!last) return;
  state.ended = true;
  state.card.count("ended");
  if (state.exchange->stream) return finish_stream();
  respond(200, std::move(bytes));
}

void request_core::stop(end_reason reason, const failure& why) {
  auto& state = self_->state;
  if (state.finishing) return quit();
  if (state.choices.empty())  // still being encoded or matched
    return reason == end_reason::failed ? fail(why) : quit();
  if (reason == end_reason::failed) {
    log_failure(state.choices.front(), why);
    return fail(why);
  }
  state.ended = true;
  state.card.count("ended");
  for (const choice_state& choice : state.choices)
    choice_core{self_, choice.number}.stop(reason, why);
  quit();
}

void request_core::fail(const failure& why) {
  auto& state = self_->state;
  state.ended = true;
  state.card.count("ended");
  for (const choice_state& choice : state.choices)
    choice_core{self_, choice.number}.stop(end_reason::cancelled, {});
  if (!state.begun) return refuse(recipe::to_api_error(why));
  write(state.exchange->writer->fail(recipe::to_api_error(why)));
  finish_stream();
}

// Without the client's text: what happened, and to which request.
void request_core::log_failure(const choice_state& choice, const failure& why) {
  const auto& state = self_->state;
  if (!state.setup->log) return;
  state.setup->log->warn("request.failed", {{"request", to_string(state.id)},
                                            {"choice", choice.number},
                                            {"leg", static_cast<uint32_t>(choice.machine.leg())},
                                            {"tokens", output_tokens()},
                                            {"why", to_string(why)}});
}

void request_core::finish_stream() {
  auto& state = self_->state;
  if (!state.unsent.empty()) {  // a full connection: the end goes out when it drains, or never
    state.finishing = true;
    return;
  }
  static_cast<void>(state.client.responder->finish());
  quit();
}

uint32_t request_core::output_tokens() const {
  size_t count = 0;
  for (const choice_state& choice : self_->state.choices) count += choice.emitted.size();
  return static_cast<uint32_t>(count);
}

answer_usage request_core::usage() const {
  const auto& state = self_->state;
  const bool rerouted = std::any_of(state.choices.begin(), state.choices.end(),
                                    [](const choice_state& c) { return c.machine.reroutes() > 0; });
  return {static_cast<uint32_t>(state.exchange->tokens.size()), state.cached_tokens,
          output_tokens(), rerouted};
}

void request_core::begin_stream() {
  auto& state = self_->state;
  if (state.begun) return;
  state.begun = true;
  static_cast<void>(
      state.client.responder->begin_stream(200, event_stream, with_request_id(state.id)));
  write(state.exchange->writer->begin(usage()));
}

void request_core::write(const std::string& bytes) {
  auto& state = self_->state;
  if (bytes.empty()) return;
  state.last_bytes = now();
  state.unsent += bytes;
  flush();
}

// In pieces, so that bytes that together exceed what a connection holds still get through.
void request_core::flush() {
  auto& state = self_->state;
  const size_t piece = std::max<size_t>(1, state.setup->piece_bytes);
  size_t sent = 0;
  while (sent < state.unsent.size()) {
    std::string part = state.unsent.substr(sent, piece);
    const size_t length = part.size();
    const auto pending = state.client.responder->write(std::move(part));
    if (!pending && pending.error().code == error_code::no_capacity) break;
    sent += length;  // or the client is gone, and `on_closed` says so
  }
  state.unsent.erase(0, sent);
}

void request_core::refuse(const recipe::api_error& error) {
  auto& state = self_->state;
  state.ended = true;
  http_headers extra;
  if (error.status == 429 || error.status == 503) extra.push_back({"retry-after", "1"});
  respond(static_cast<uint16_t>(error.status),
          state.setup->protocol->error_body(*state.client.request, error, state.context),
          std::move(extra));
}

void request_core::quit() {
  auto& state = self_->state;
  if (state.setup->metrics)
    state.setup->metrics->whole_seconds->observe(
        std::chrono::duration<double>(now() - state.started).count());
  // A monitor stays with the engine when its observer ends, and keeps the observer's memory.
  for (const auto& [key, handle] : state.engines) self_->demonitor(handle.address());
  state.client.responder.reset();
  self_->quit();
}

void request_core::observe(choice_state& choice, size_t count) {
  const auto& state = self_->state;
  if (state.setup->metrics) {
    const auto since = [&](std::chrono::nanoseconds t) {
      return std::chrono::duration<double>(now() - t).count();
    };
    if (!choice.emitted.empty())
      state.setup->metrics->between_tokens_seconds->observe(since(choice.last_token) /
                                                            static_cast<double>(count));
    else if (output_tokens() == 0)
      state.setup->metrics->first_token_seconds->observe(since(state.started));
  }
  choice.last_token = now();
}

void request_core::drained() {
  auto& state = self_->state;
  if (!state.client.responder) return;
  flush();
  if (!state.unsent.empty()) return;
  if (state.finishing) {
    static_cast<void>(state.client.responder->finish());
    return quit();
  }
  for (const choice_state& choice : state.choices) choice_core{self_, choice.number}.drained();
}

void request_core::tick() {
  auto& state = self_->state;
  // Over, but the client takes its bytes too slowly: it does not hold its place for ever.
  if (state.finishing && now() - state.started >= state.setup->config.time_limit) return quit();
  for (const choice_state& choice : state.choices) choice_core{self_, choice.number}.tick();
  if (state.ended && !state.finishing) return;
  if (!state.finishing && state.exchange) keep_alive();
  self_->delayed_send(self_, tick_interval(state.setup->config), request_tick{});
}

void request_core::keep_alive() {
  auto& state = self_->state;
  const auto quiet = now() - state.last_bytes;
  if (state.exchange->stream) {
    if (quiet < state.setup->config.ping) return;
    begin_stream();
    return write(state.exchange->writer->keep_alive());
  }
  const auto after = state.setup->config.plain_keep_alive;
  if (after.count() == 0 || quiet < after) return;
  if (!std::exchange(state.kept_alive, true))
    static_cast<void>(state.client.responder->begin_stream(200, json, with_request_id(state.id)));
  write("\n");  // white space in front of JSON is nothing
}

}  // namespace deepinfer
