#include "actors/edge/request_core.hpp"

#include "actors/messages/errors.hpp"
#include "actors/serve/sequence_wire.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace deepinfer {

using namespace schedule;

namespace {

constexpr std::string_view event_stream = "text/event-stream; charset=utf-8";

std::optional<end_reason> reason_of(wire::FinishReason reason) {
  switch (reason) {
    case wire::FinishReason::NONE:
      return std::nullopt;
    case wire::FinishReason::STOP:
      return end_reason::stop;
    case wire::FinishReason::LENGTH:
      return end_reason::length;
    case wire::FinishReason::CANCELLED:
      return end_reason::cancelled;
    default:
      return end_reason::failed;
  }
}

failure read_failure(wire::Failure::Reader in) {
  return {error_code_from_wire(in.getCode()), std::string{in.getDetail().cStr()}};
}

void write_sampling(wire::Sampling::Builder out, const prepared_exchange& exchange) {
  out.setTemperature(exchange.sampling.temperature);
  out.setTopP(exchange.sampling.top_p);
  out.setTopK(exchange.sampling.top_k);
  out.setSeed(exchange.sampling.seed);
  out.setMaxTokens(exchange.max_tokens);
  out.setIgnoreEos(exchange.ignore_eos);
}

}  // namespace

void request_core::start() {
  auto& state = self_->state;
  state.started = state.last_bytes = now();
  self_
      ->request(state.setup->codec, state.setup->config.codec_within,
                encode_job{state.client.request, state.context})
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
    static_cast<void>(state.client.responder->respond(200, "application/json",
                                                      *std::move(state.exchange->answered)));
    return quit();
  }
  state.machine.emplace(state.setup->config.limits, now(),
                        state.started + state.setup->config.time_limit);
  apply(state.machine->start());
}

void request_core::apply(const effects& list) {
  for (const effect& e : list) std::visit([this](const auto& what) { run(what); }, e);
}

void request_core::run(const ask_route& what) {
  if (what.delay.count() == 0) return ask(what);
  self_->delayed_send(self_, what.delay, route_again{what});
}

void request_core::ask(const ask_route& what) {
  auto& state = self_->state;
  wire::draft<wire::RouteQuery> query;
  query->setPromptTokens(static_cast<uint32_t>(state.exchange->tokens.size()) +
                         state.machine->emitted());
  query->setMaxTokens(state.exchange->max_tokens -
                      std::min(state.exchange->max_tokens, state.machine->emitted()));
  query->setModel(state.setup->model);
  auto exclude = query->initExclude(static_cast<uint32_t>(what.exclude.size()));
  for (uint32_t i = 0; i < what.exclude.size(); ++i)
    write_ref(exclude[i], {what.exclude[i].node, what.exclude[i].actor, 0});
  const auto& balancer = what.role == engine_role::prefill ? state.setup->prefill_balancer
                                                           : state.setup->decode_balancer;
  self_->request(balancer, state.setup->config.route_within, query.freeze())
      .then(
          [self = self_, role = what.role](const wire::msg<wire::RouteReply>& reply) {
            request_core{self}.routed(role, read_ref(reply.get().getEngine()));
          },
          [self = self_, role = what.role](const caf::error& e) {
            request_core core{self};
            core.apply(self->state.machine->route_failed(role, from_caf(e), core.now()));
          });
  state.card.sent(balancer);
}

void request_core::routed(engine_role role, const actor_ref& ref) {
  auto& state = self_->state;
  const engine_key key{ref.node, ref.actor};
  const auto handle = state.setup->hub->resolve<engine_actor>(ref);
  if (!handle) return apply(state.machine->route_failed(role, handle.error(), now()));
  if (state.engines.emplace(key, *handle).second) self_->monitor(*handle);
  apply(state.machine->routed(role, key));
}

engine_actor* request_core::engine(const engine_key& key) {
  const auto found = self_->state.engines.find(key);
  return found == self_->state.engines.end() ? nullptr : &found->second;
}

uint32_t request_core::time_left_ms() const {
  const auto& state = self_->state;
  const auto left = state.started + state.setup->config.time_limit - now();
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
  return static_cast<uint32_t>(std::max<int64_t>(1, whole));
}

template <class Message>
void request_core::submit(const engine_key& key,
                          leg_epoch leg,
                          std::chrono::milliseconds within,
                          const wire::msg<Message>& what) {
  const engine_actor& to = *engine(key);
  self_->request(to, within, what)
      .then(
          [self = self_, leg](const wire::msg<wire::Accepted>&) {
            request_core{self}.apply(self->state.machine->accepted(leg));
          },
          [self = self_, leg](const caf::error& e) {
            request_core core{self};
            core.apply(self->state.machine->refused(leg, from_caf(e), core.now()));
          });
  self_->state.card.sent(to);
}

void request_core::run(const submit_prefill& what) {
  auto& state = self_->state;
  wire::draft<wire::PrefillSubmit> out;
  write_key(out->initKey(), state.id, what.leg);
  out->setDeadlineMs(time_left_ms());
  write_ref(out->initReplyTo(), state.sink_ref);
  out->setModel(state.setup->model);
  std::vector<int32_t> tokens = state.exchange->tokens;
  tokens.insert(tokens.end(), state.emitted.begin(), state.emitted.end());
  out->setTokens(token_bytes(tokens));
  out->setPromptTokens(static_cast<uint32_t>(state.exchange->tokens.size()));
  write_sampling(out->initSampling(), *state.exchange);
  submit(what.engine, what.leg, state.setup->config.accept_within, out.freeze());
}

void request_core::run(const submit_decode& what) {
  auto& state = self_->state;
  wire::draft<wire::DecodeSubmit> out;
  write_key(out->initKey(), state.id, what.leg);
  out->setDeadlineMs(time_left_ms());
  write_ref(out->initReplyTo(), state.sink_ref);
  out->setCredit(what.credit);
  out->setSequence(state.sequence.get().getSequence());
  submit(what.engine, what.leg, state.setup->config.hand_over_within, out.freeze());
}

void request_core::run(const cancel_leg& what) {
  engine_actor* to = engine(what.engine);
  if (to == nullptr) return;
  wire::draft<wire::Cancel> out;
  write_key(out->initKey(), self_->state.id, what.leg);
  self_->send(*to, out.freeze());
  self_->state.card.sent(*to);
}

void request_core::run(const release_sequence&) {
  release(std::exchange(self_->state.sequence, {}));
}

void request_core::release(const wire::msg<wire::SequenceReady>& ready) {
  const auto lease = ready.get().getSequence().getLease();
  const auto owner = self_->state.setup->hub->resolve<engine_actor>(read_ref(lease.getOwner()));
  if (!owner) return;
  wire::draft<wire::LeaseRelease> out;
  out->setId(lease.getId());
  self_->send(*owner, out.freeze());
  self_->state.card.sent(*owner);
}

void request_core::run(const grant_credit& what) {
  engine_actor* to = engine(what.engine);
  if (to == nullptr) return;
  wire::draft<wire::Credit> out;
  write_key(out->initKey(), self_->state.id, what.leg);
  out->setTokens(what.outputs);
  self_->send(*to, out.freeze());
  self_->state.card.sent(*to);
}

void request_core::run(const emit_tokens& what) {
  auto& state = self_->state;
  const auto count = static_cast<uint32_t>(what.ids.size());
  observe(count);
  state.emitted.insert(state.emitted.end(), what.ids.begin(), what.ids.end());
  state.card.count("tokens", count);
  if (state.exchange->stream) begin_stream();
  const answer_writer::fed fed = state.exchange->writer->feed({0, what.ids, {}});
  if (state.exchange->stream) write(fed.bytes);
  state.undrained += count;
  if (state.unsent.empty() && (!state.exchange->stream || state.client.responder->pending_bytes() <=
                                                              state.setup->low_water_bytes))
    drained();
  // What follows in the same list of effects finds the machine done, and changes nothing.
  if (fed.finished) state.stop_matched = true;
}

void request_core::run(const end_request& what) {
  auto& state = self_->state;
  state.card.count("ended");
  if (state.ended) return;
  // Without the client's text: what happened, and to which request.
  if (what.reason == end_reason::failed && state.setup->log)
    state.setup->log->warn("request.failed", {{"request", to_string(state.id)},
                                              {"leg", static_cast<uint32_t>(state.machine->leg())},
                                              {"tokens", state.emitted.size()},
                                              {"why", to_string(what.why)}});
  state.ended = true;
  if (what.reason == end_reason::cancelled) return quit();
  if (what.reason == end_reason::failed && !state.begun)
    return refuse(recipe::to_api_error(what.why));
  if (state.exchange->stream) return finish_stream(what);
  if (what.reason == end_reason::failed) return refuse(recipe::to_api_error(what.why));
  static_cast<void>(state.client.responder->respond(
      200, "application/json", state.exchange->writer->end(result_of(what), usage())));
  quit();
}

void request_core::finish_stream(const end_request& what) {
  auto& state = self_->state;
  begin_stream();
  write(what.reason == end_reason::failed
            ? state.exchange->writer->fail(recipe::to_api_error(what.why))
            : state.exchange->writer->end(result_of(what), usage()));
  if (!state.unsent.empty()) {  // a full connection: the end goes out when it drains, or never
    state.finishing = true;
    return;
  }
  static_cast<void>(state.client.responder->finish());
  quit();
}

choice_result request_core::result_of(const end_request& what) const {
  return {0, what.reason, self_->state.setup->unix_time()};
}

answer_usage request_core::usage() const {
  const auto& state = self_->state;
  return {static_cast<uint32_t>(state.exchange->tokens.size()), 0,
          static_cast<uint32_t>(state.emitted.size()), state.machine->reroutes() > 0};
}

void request_core::begin_stream() {
  auto& state = self_->state;
  if (state.begun) return;
  state.begun = true;
  static_cast<void>(state.client.responder->begin_stream(200, event_stream));
  write(state.exchange->writer->begin());
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
  static_cast<void>(state.client.responder->respond(
      static_cast<uint16_t>(error.status), "application/json",
      state.setup->protocol->error_body(*state.client.request, error, state.context), extra));
  quit();
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

void request_core::observe(uint32_t count) {
  auto& state = self_->state;
  if (state.setup->metrics) {
    const auto since = [&](std::chrono::nanoseconds t) {
      return std::chrono::duration<double>(now() - t).count();
    };
    if (state.emitted.empty())
      state.setup->metrics->first_token_seconds->observe(since(state.started));
    else
      state.setup->metrics->between_tokens_seconds->observe(since(state.last_token) / count);
  }
  state.last_token = now();
}

void request_core::down(const caf::actor_addr& source) {
  auto& state = self_->state;
  if (!state.machine) return;
  for (auto it = state.engines.begin(); it != state.engines.end(); ++it) {
    if (it->second.address() != source) continue;
    const engine_key key = it->first;
    apply(state.machine->engine_down(key, now()));
    state.engines.erase(key);
    return;
  }
}

void request_core::ready(const wire::msg<wire::SequenceReady>& msg) {
  auto& state = self_->state;
  if (!state.machine) return;
  const auto in = msg.get();
  // Kept before the machine answers: its effects read it. An older leg's is given back at once.
  if (read_leg(in.getKey()) != state.machine->leg()) return release(msg);
  state.sequence = msg;
  apply(state.machine->sequence_ready(read_leg(in.getKey()), in.getTokenIndex(), in.getToken(),
                                      reason_of(in.getFinish()), now()));
  stop_if_matched();
}

void request_core::tokens(wire::Tokens::Reader in) {
  auto& state = self_->state;
  if (!state.machine) return;
  const auto leg = read_leg(in.getKey());
  const auto end = reason_of(in.getFinish());
  const failure why = end == end_reason::failed ? read_failure(in.getFailure()) : failure{};
  if (end == end_reason::failed && state.machine->state() == request_state::prefilling)
    return apply(state.machine->refused(leg, why, now()));
  const auto ids = read_tokens(in.getIds(), UINT32_MAX);
  if (!ids) return;
  apply(state.machine->tokens(leg, in.getFirstIndex(), *ids, end, why, now()));
  stop_if_matched();
}

void request_core::stop_if_matched() {
  auto& state = self_->state;
  if (state.stop_matched && !state.ended) apply(state.machine->stop(end_reason::stop_string, {}));
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
  if (state.machine) apply(state.machine->drained(std::exchange(state.undrained, 0)));
}

void request_core::tick() {
  auto& state = self_->state;
  // Over, but the client takes its bytes too slowly: it does not hold its place for ever.
  if (state.finishing && now() - state.started >= state.setup->config.time_limit) return quit();
  if (state.machine) apply(state.machine->tick(now()));
  if (state.ended && !state.finishing) return;
  if (!state.finishing && state.exchange && state.exchange->stream &&
      now() - state.last_bytes >= state.setup->config.ping) {
    begin_stream();
    write(state.exchange->writer->keep_alive());
  }
  self_->delayed_send(
      self_, std::min<std::chrono::milliseconds>(state.setup->config.ping, std::chrono::seconds(1)),
      request_tick{});
}

}  // namespace deepinfer
