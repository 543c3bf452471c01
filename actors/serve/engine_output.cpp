#include "actors/serve/engine_core.hpp"
#include "actors/serve/sequence_wire.hpp"
#include "proto/codec/logprobs.hpp"

#include <algorithm>
#include <utility>

/// What leaves an engine: tokens, and sequences that wait under a lease until they are fetched.
namespace deepinfer {

using schedule::engine_role;
using schedule::slot_id;

wire::FinishReason engine_core::finish_of(const engine_sequence& s, int32_t token) const {
  const model::model_info& model = self_->state.setup.model->info();
  const bool stops = std::find(model.stop_tokens.begin(), model.stop_tokens.end(), token) !=
                     model.stop_tokens.end();
  if (stops && !s.ignore_eos) return wire::FinishReason::STOP;
  if (s.outputs() >= s.max_tokens || s.tokens.size() >= model.context_limit)
    return wire::FinishReason::LENGTH;
  return wire::FinishReason::NONE;
}

void engine_core::sampled(slot_id slot, step_result_row& row) {
  engine_state& state = self_->state;
  engine_sequence& s = state.sequences.at(slot);
  s.tokens.push_back(row.token);
  s.logprobs = row.logprobs;
  state.card.count("tokens");
  const wire::FinishReason reason = finish_of(s, row.token);
  if (state.setup.role == engine_role::decode) {
    send_tokens(s, {&row.token, 1}, reason, {});
    if (reason != wire::FinishReason::NONE) finish(slot);
    return;
  }
  if (reason == wire::FinishReason::NONE) return hand_over(slot, std::move(row.parts));
  persist_computed(s, row.parts);
  send_ready(slot, reason, nullptr);
  finish(slot);
}

void engine_core::hand_over(slot_id slot, std::vector<model::state_part> parts) {
  engine_state& state = self_->state;
  engine_sequence& s = state.sequences.at(slot);
  // Those that already wait for room come first, or a large one would wait for ever.
  const bool others_wait = std::any_of(
      state.sequences.begin(), state.sequences.end(),
      [](const auto& entry) { return !entry.second.waiting_parts.empty() && !entry.second.ended; });
  s.waiting_parts = std::move(parts);
  if (!others_wait) stage(slot);
}

// False: the staging area is full; the slot keeps its place, so the wait is bounded by the planner.
bool engine_core::stage(slot_id slot) {
  engine_state& state = self_->state;
  engine_sequence& s = state.sequences.at(slot);
  const auto staged = state.staging->stage(s.waiting_parts, now(), state.setup.config.lease_ttl);
  if (!staged && staged.error().code == error_code::no_capacity) return false;
  if (staged) persist_shared(s, s.waiting_parts);
  s.waiting_parts.clear();
  if (staged) {
    watch(s.sink);  // beyond the end of the sequence, until somebody has fetched it
    staged_for waiting{s.leg, staged->lease, s.sink, unsent(s, *staged)};
    const auto found = state.staged.find(s.request);
    if (found == state.staged.end()) {
      state.staged.emplace(s.request, std::move(waiting));
    } else {  // an older leg's, which is left to its lease
      unwatch(found->second.sink);
      found->second = std::move(waiting);
    }
    send_ready(slot, wire::FinishReason::NONE, &*staged);
    finish(slot);
  } else {
    fail(slot, staged.error());
  }
  return true;
}

void engine_core::restage() {
  for (auto& [slot, s] : self_->state.sequences) {
    if (s.waiting_parts.empty() || s.ended) continue;
    if (!stage(slot)) break;  // still full: keep the order
  }
  collect_freed();
}

void engine_core::send_ready(slot_id slot,
                             wire::FinishReason finish,
                             const staged_sequence* staged) {
  engine_state& state = self_->state;
  const engine_sequence& s = state.sequences.at(slot);
  wire::draft<wire::SequenceReady> out;
  write_key(out->initKey(), s.request, s.leg);
  out->setTokenIndex(s.outputs() - 1);
  out->setToken(s.tokens.back());
  out->setFinish(finish);
  out->setCachedTokens(s.cached_tokens);
  if (!s.logprobs.empty())
    wire::write_logprobs(out->initLogprobs(), s.logprobs, s.sampling.logprobs);
  if (staged != nullptr)
    write_sequence(out->initSequence(), s, state.setup.model->info(), *staged, state.self_ref,
                   state.setup.config.lease_ttl);
  self_->send(s.sink, out.freeze());
  state.card.sent(s.sink);
}

void engine_core::send_tokens(const engine_sequence& s,
                              std::span<const int32_t> ids,
                              wire::FinishReason finish,
                              const failure& why) {
  wire::draft<wire::Tokens> out;
  write_key(out->initKey(), s.request, s.leg);
  out->setFirstIndex(s.outputs() - static_cast<uint32_t>(ids.size()));
  out->setIds(token_bytes(ids));
  if (!ids.empty() && !s.logprobs.empty())
    wire::write_logprobs(out->initLogprobs(), s.logprobs, s.sampling.logprobs);
  out->setFinish(finish);
  if (finish == wire::FinishReason::FAILED) {
    out->initFailure().setCode(static_cast<uint16_t>(why.code));
    out->getFailure().setDetail(why.detail);
  }
  self_->send(s.sink, out.freeze());
  self_->state.card.sent(s.sink);
}

void engine_core::release_lease(uint64_t id) {
  engine_state& state = self_->state;
  static_cast<void>(state.staging->leases().release(id));
  lease_ended(id);
  restage();
  pump();
  answer_drain();
}

void engine_core::lease_ended(uint64_t id) {
  auto& staged = self_->state.staged;
  for (auto it = staged.begin(); it != staged.end(); ++it) {
    if (it->second.lease != id) continue;
    unwatch(it->second.sink);
    staged.erase(it);
    return;
  }
}

void engine_core::forget_staged(const request_id& request, leg_epoch leg) {
  const auto found = self_->state.staged.find(request);
  if (found == self_->state.staged.end() || found->second.leg != leg) return;
  hand_over_failed(found->second.lease);
}

}  // namespace deepinfer
