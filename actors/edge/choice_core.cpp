#include "actors/edge/choice_core.hpp"

#include "actors/edge/request_core.hpp"
#include "actors/messages/errors.hpp"
#include "actors/serve/sequence_wire.hpp"
#include "proto/codec/logprobs.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace deepinfer {

using namespace schedule;

namespace {

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

}  // namespace

void choice_core::start() {
  apply(choice_.machine.start());
}

void choice_core::apply(const effects& list) {
  for (const effect& e : list) std::visit([this](const auto& what) { run(what); }, e);
}

void choice_core::run(const ask_route& what) {
  if (what.delay.count() == 0) return ask(what);
  self_->delayed_send(self_, what.delay, route_again{choice_.number, what});
}

void choice_core::ask_again(const ask_route& what) {
  const auto wanted = what.role == engine_role::prefill ? request_state::routing_prefill
                                                        : request_state::routing_decode;
  if (choice_.machine.state() == wanted) ask(what);
}

void choice_core::ask(const ask_route& what) {
  auto& state = self_->state;
  const uint32_t emitted = choice_.machine.emitted();
  if (what.role == engine_role::prefill && choice_.hinted != emitted) return match_again(what);
  wire::draft<wire::RouteQuery> query;
  query->setPromptTokens(static_cast<uint32_t>(state.exchange->tokens.size()) + emitted);
  query->setMaxTokens(state.exchange->max_tokens - std::min(state.exchange->max_tokens, emitted));
  query->setModel(state.setup->model);
  auto exclude = query->initExclude(static_cast<uint32_t>(what.exclude.size()));
  for (uint32_t i = 0; i < what.exclude.size(); ++i)
    write_ref(exclude[i], {what.exclude[i].node, what.exclude[i].actor, 0});
  const auto& balancer = what.role == engine_role::prefill ? state.setup->prefill_balancer
                                                           : state.setup->decode_balancer;
  self_->request(balancer, state.setup->config.route_within, query.freeze())
      .then(
          [self = self_, number = choice_.number,
           role = what.role](const wire::msg<wire::RouteReply>& reply) {
            choice_core{self, number}.routed(role, read_ref(reply.get().getEngine()));
          },
          [self = self_, number = choice_.number, role = what.role](const caf::error& e) {
            choice_core core{self, number};
            core.apply(core.choice_.machine.route_failed(role, from_caf(e), core.now()));
          });
  state.card.sent(balancer);
}

std::vector<int32_t> choice_core::all_tokens() const {
  std::vector<int32_t> tokens = self_->state.exchange->tokens;
  tokens.insert(tokens.end(), choice_.emitted.begin(), choice_.emitted.end());
  return tokens;
}

void choice_core::match_again(const ask_route& what) {
  const auto& setup = *self_->state.setup;
  choice_.hint = {};
  choice_.hinted = choice_.machine.emitted();
  if (!setup.check || !setup.cache.enabled) return ask(what);
  const auto tokens = std::make_shared<const std::vector<int32_t>>(all_tokens());
  self_->request(setup.check, setup.cache.match_within, match_prompt{tokens, setup.party})
      .then(
          [self = self_, number = choice_.number, what](const wire::msg<wire::CacheHint>& hint) {
            choice_core core{self, number};
            core.choice_.hint = hint;
            core.ask_again(what);
          },
          [self = self_, number = choice_.number, what](const caf::error&) {
            self->state.card.count("unmatched");
            choice_core{self, number}.ask_again(what);
          });
  self_->state.card.sent(setup.check);
}

void choice_core::routed(engine_role role, const actor_ref& ref) {
  auto& state = self_->state;
  const engine_key key{ref.node, ref.actor};
  const auto handle = state.setup->hub->resolve<engine_actor>(ref);
  if (!handle) return apply(choice_.machine.route_failed(role, handle.error(), now()));
  if (state.engines.emplace(key, *handle).second) self_->monitor(*handle);
  apply(choice_.machine.routed(role, key));
}

engine_actor* choice_core::engine(const engine_key& key) {
  const auto found = self_->state.engines.find(key);
  return found == self_->state.engines.end() ? nullptr : &found->second;
}

template <class Message>
void choice_core::submit(const engine_key& key,
                         leg_epoch leg,
                         std::chrono::milliseconds within,
                         const wire::msg<Message>& what) {
  const engine_actor& to = *engine(key);
  self_->request(to, within, what)
      .then(
          [self = self_, number = choice_.number, leg](const wire::msg<wire::Accepted>&) {
            choice_core core{self, number};
            core.apply(core.choice_.machine.accepted(leg));
          },
          [self = self_, number = choice_.number, leg](const caf::error& e) {
            choice_core core{self, number};
            core.apply(core.choice_.machine.refused(leg, from_caf(e), core.now()));
          });
  self_->state.card.sent(to);
}

void choice_core::run(const submit_prefill& what) {
  const auto& state = self_->state;
  const prepared_exchange& exchange = *state.exchange;
  wire::draft<wire::PrefillSubmit> out;
  write_key(out->initKey(), choice_.id, what.leg);
  out->setDeadlineMs(request_core{self_}.time_left_ms());
  write_ref(out->initReplyTo(), state.sink_ref);
  out->setModel(state.setup->model);
  out->setTokens(token_bytes(all_tokens()));
  out->setPromptTokens(static_cast<uint32_t>(exchange.tokens.size()));
  auto sampling = out->initSampling();
  write_sampling(sampling, choice_.sampling);
  sampling.setMaxTokens(exchange.max_tokens);
  sampling.setIgnoreEos(exchange.ignore_eos);
  if (choice_.hint) out->setCache(choice_.hint.get());
  submit(what.engine, what.leg, state.setup->config.accept_within, out.freeze());
}

void choice_core::run(const submit_decode& what) {
  const auto& state = self_->state;
  wire::draft<wire::DecodeSubmit> out;
  write_key(out->initKey(), choice_.id, what.leg);
  out->setDeadlineMs(request_core{self_}.time_left_ms());
  write_ref(out->initReplyTo(), state.sink_ref);
  out->setCredit(what.credit);
  out->setSequence(choice_.sequence.get().getSequence());
  submit(what.engine, what.leg, state.setup->config.hand_over_within, out.freeze());
}

void choice_core::run(const cancel_leg& what) {
  engine_actor* to = engine(what.engine);
  if (to == nullptr) return;
  wire::draft<wire::Cancel> out;
  write_key(out->initKey(), choice_.id, what.leg);
  self_->send(*to, out.freeze());
  self_->state.card.sent(*to);
}

void choice_core::run(const release_sequence&) {
  release_sequence_of(self_, std::exchange(choice_.sequence, {}));
}

void choice_core::run(const grant_credit& what) {
  engine_actor* to = engine(what.engine);
  if (to == nullptr) return;
  wire::draft<wire::Credit> out;
  write_key(out->initKey(), choice_.id, what.leg);
  out->setTokens(what.outputs);
  self_->send(*to, out.freeze());
  self_->state.card.sent(*to);
}

void choice_core::run(const emit_tokens& what) {
  std::span<const token_logprobs> rows = choice_.arriving;
  if (!rows.empty())
    rows = rows.subspan(what.first_index - choice_.arriving_index, what.ids.size());
  request_core{self_}.emit(choice_, {choice_.number, what.ids, rows});
}

void choice_core::run(const end_request& what) {
  choice_.over = true;
  request_core{self_}.choice_over(choice_, what);
}

void choice_core::ready(const wire::msg<wire::SequenceReady>& msg) {
  const auto in = msg.get();
  const auto leg = read_leg(in.getKey());
  // An older leg's is given back at once.
  if (leg != choice_.machine.leg()) return release_sequence_of(self_, msg);
  auto rows = wire::read_logprobs(in.getLogprobs(), {1, choice_.sampling.logprobs});
  if (!rows) {
    release_sequence_of(self_, msg);
    return apply(choice_.machine.refused(leg, rows.error(), now()));
  }
  note_cached(in);
  // Kept before the machine answers: its effects read both.
  choice_.sequence = msg;
  choice_.arriving = *std::move(rows);
  choice_.arriving_index = in.getTokenIndex();
  apply(choice_.machine.sequence_ready(leg, in.getTokenIndex(), in.getToken(),
                                       reason_of(in.getFinish()), now()));
  stop_if_matched();
}

// Later legs compute outputs again, which are no part of the prompt.
void choice_core::note_cached(wire::SequenceReady::Reader in) {
  auto& state = self_->state;
  if (!choice_.emitted.empty()) return;
  const auto prompt = static_cast<uint32_t>(state.exchange->tokens.size());
  const uint32_t cached = std::min(in.getCachedTokens(), prompt);
  if (choice_.number == 0) state.cached_tokens = cached;
  const bool agent = state.setup->party.traffic == storage::traffic_class::agent;
  const uint32_t prompt_blocks = prompt / model::cache_block_tokens;
  const uint32_t cached_blocks = cached / model::cache_block_tokens;
  if (state.setup->uses) {
    cache_use& use = agent ? state.setup->uses->agent : state.setup->uses->chat;
    use.prompt_tokens += prompt;
    use.cached_tokens += cached;
    use.prompt_blocks += prompt_blocks;
    use.cached_blocks += cached_blocks;
  }
  if (!state.setup->metrics) return;
  const auto& totals = agent ? state.setup->metrics->agent : state.setup->metrics->chat;
  const auto add = [](counter* total, uint32_t more) {
    if (total != nullptr) total->add(more);
  };
  add(totals.prompt_tokens, prompt);
  add(totals.cached_tokens, cached);
  add(totals.prompt_blocks, prompt_blocks);
  add(totals.cached_blocks, cached_blocks);
}

void choice_core::tokens(wire::Tokens::Reader in) {
  const auto leg = read_leg(in.getKey());
  const auto end = reason_of(in.getFinish());
  const failure why = end == end_reason::failed ? read_failure(in.getFailure()) : failure{};
  if (end == end_reason::failed && choice_.machine.state() == request_state::prefilling)
    return apply(choice_.machine.refused(leg, why, now()));
  const auto ids = read_tokens(in.getIds(), UINT32_MAX);
  result<std::vector<token_logprobs>> rows = failure{error_code::corrupt, "no token ids"};
  if (ids) rows = wire::read_logprobs(in.getLogprobs(), {ids->size(), choice_.sampling.logprobs});
  // An engine that writes nonsense is left for another one.
  if (!rows)
    return apply(choice_.machine.tokens(leg, in.getFirstIndex(), {}, end_reason::failed,
                                        rows.error(), now()));
  choice_.arriving = *std::move(rows);
  choice_.arriving_index = in.getFirstIndex();
  apply(choice_.machine.tokens(leg, in.getFirstIndex(), *ids, end, why, now()));
  stop_if_matched();
}

void choice_core::stop_if_matched() {
  if (choice_.stop_matched && !choice_.over) stop(end_reason::stop_string, {});
}

void choice_core::engine_down(const engine_key& engine) {
  apply(choice_.machine.engine_down(engine, now()));
}

void choice_core::drained() {
  apply(choice_.machine.drained(std::exchange(choice_.undrained, 0)));
}

void choice_core::tick() {
  apply(choice_.machine.tick(now()));
}

void choice_core::stop(end_reason reason, const failure& why) {
  apply(choice_.machine.stop(reason, why));
}

void release_sequence_of(choice_core::self_ptr self, const wire::msg<wire::SequenceReady>& ready) {
  const auto lease = ready.get().getSequence().getLease();
  const auto owner = self->state.setup->hub->resolve<engine_actor>(read_ref(lease.getOwner()));
  if (!owner) return;
  wire::draft<wire::LeaseRelease> out;
  out->setId(lease.getId());
  self->send(*owner, out.freeze());
  self->state.card.sent(*owner);
}

}  // namespace deepinfer
