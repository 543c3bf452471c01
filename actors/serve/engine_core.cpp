#include "actors/serve/engine_core.hpp"

#include "actors/messages/errors.hpp"
#include "actors/serve/batch.hpp"
#include "actors/serve/sequence_wire.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer {

using schedule::engine_role;
using schedule::slot_id;

result<void> engine_core::start(const engine_setup& setup) {
  engine_state& state = self_->state;
  state.setup = setup;
  state.card = actor_card{setup.role == engine_role::prefill ? "prefill" : "decode", *setup.hub};
  state.planner = schedule::step_planner{setup.config.planner};
  auto staging = staging_area::make(*setup.transport, setup.config.staging_bytes);
  if (!staging) return staging.error();
  state.staging = *std::move(staging);
  const auto ref = setup.hub->export_actor(engine_actor{self_});
  if (!ref) return ref.error();
  state.self_ref = *ref;
  const step_sink_actor me{engine_impl_actor{self_}};
  for (uint64_t i = 0; i < 2; ++i)
    // Step 1 goes to the batch of odd numbers.
    state.batches[i] = setup.spawn_batch({setup.hub, setup.model, i == 1 ? 1u : 0u}, me);
  for (uint64_t i = 0; i < 2; ++i) {
    self_->send(state.batches[i], batch_sibling{state.batches[1 - i]});
    self_->link_to(
        state.batches[i]);  // an engine without its batches is none, and the other way round
  }
  if (setup.role == engine_role::prefill && setup.cache.enabled && setup.spawn_swap) {
    kv_swap_config swap{.hub = setup.hub, .copy_bytes = setup.cache.copy_bytes};
    swap.metrics = setup.hits;
    state.swap = setup.spawn_swap(swap, swap_sink_actor{engine_impl_actor{self_}});
    self_->link_to(state.swap);
  }
  return {};
}

result<void> engine_core::admit(engine_sequence sequence,
                                const schedule::slot_request& what,
                                slot_id& slot) {
  engine_state& state = self_->state;
  // A newer leg of a request that is still here replaces the older one.
  if (const auto old = state.by_request.find(sequence.request); old != state.by_request.end()) {
    if (state.sequences.at(old->second).leg >= sequence.leg)
      return failure{error_code::stale_epoch, "a newer leg of this request is already here"};
    drop(old->second);
  }
  if (state.draining) return failure{error_code::no_capacity, "this engine is shutting down"};
  const auto added = state.planner.add(what);
  if (!added) return added.error();
  slot = *added;
  watch(sequence.sink);
  state.by_request[sequence.request] = slot;
  state.sequences.emplace(slot, std::move(sequence));
  report_soon();
  return {};
}

result<wire::msg<wire::Accepted>> engine_core::prefill(wire::PrefillSubmit::Reader msg) {
  engine_state& state = self_->state;
  const model::model_info& model = state.setup.model->info();
  if (state.setup.role != engine_role::prefill)
    return failure{error_code::unsupported, "not a prefill engine"};
  auto sink = state.setup.hub->resolve<leg_sink_actor>(read_ref(msg.getReplyTo()));
  if (!sink) return sink.error();
  auto tokens = read_tokens(msg.getTokens(), model.vocabulary);
  if (!tokens) return tokens.error();
  engine_sequence s;
  s.request = read_request_id(msg.getKey());
  s.leg = read_leg(msg.getKey());
  s.sink = *sink;
  s.cell = std::make_shared<sequence_cell>();
  s.cell->state = state.setup.model->make_sequence();
  s.tokens = *std::move(tokens);
  s.prompt_tokens = msg.getPromptTokens();
  s.max_tokens = msg.getSampling().getMaxTokens();
  s.ignore_eos = msg.getSampling().getIgnoreEos();
  const auto sampling = read_sampling(msg.getSampling());
  if (!sampling) return sampling.error();
  s.sampling = *sampling;
  s.deadline = now() + std::chrono::milliseconds(msg.getDeadlineMs());
  if (s.prompt_tokens == 0 || s.prompt_tokens > s.tokens.size() || s.outputs() >= s.max_tokens)
    return failure{error_code::invalid_argument, "the token counts of a prompt do not add up"};
  if (s.tokens.size() >= model.context_limit)
    return failure{error_code::too_large, "the prompt has " + std::to_string(s.tokens.size()) +
                                              " tokens, the context limit is " +
                                              std::to_string(model.context_limit)};
  s.cache = read_line(msg.getCache().getLine(), chain_layout(state.setup.cache, model.layout));
  s.chain = sequence_chain{s.cache};
  const auto count = static_cast<uint32_t>(s.tokens.size());
  const bool hit = plan_hit(s, msg.getCache());
  slot_id slot{};
  const schedule::slot_request what{.prefill_tokens = count,
                                    .max_outputs = 1,
                                    .credit = 1,
                                    .cut_at = ring_boundary(s),
                                    .held = hit};
  if (const auto ok = admit(std::move(s), what, slot); !ok) return ok.error();
  if (hit) start_hit(slot, msg.getCache());
  state.card.count("accepted");
  pump();
  wire::draft<wire::Accepted> accepted;
  accepted->setKey(msg.getKey());
  return accepted.freeze();
}

caf::typed_response_promise<wire::msg<wire::Accepted>> engine_core::decode(
    const wire::msg<wire::DecodeSubmit>& msg) {
  engine_state& state = self_->state;
  auto promise = self_->make_response_promise<wire::msg<wire::Accepted>>();
  const auto refuse = [&](const failure& why) {
    promise.deliver(to_caf(why));
    return promise;
  };
  if (state.setup.role != engine_role::decode)
    return refuse({error_code::unsupported, "not a decode engine"});
  auto sink = state.setup.hub->resolve<leg_sink_actor>(read_ref(msg.get().getReplyTo()));
  if (!sink) return refuse(sink.error());
  auto s = read_sequence(msg.get().getSequence(), state.setup.model->info(), state.setup.cache);
  if (!s) return refuse(s.error());
  s->request = read_request_id(msg.get().getKey());
  s->leg = read_leg(msg.get().getKey());
  s->sink = *sink;
  s->cell = std::make_shared<sequence_cell>();
  s->chain = sequence_chain{s->cache};
  s->deadline = now() + std::chrono::milliseconds(msg.get().getDeadlineMs());
  const auto computed = static_cast<uint32_t>(s->tokens.size()) - 1;
  const uint32_t left = s->max_tokens - s->outputs();
  const uint32_t room = state.setup.model->info().context_limit - computed;
  slot_id slot{};
  // Reserved now, without credit: nothing is computed before the state is here.
  const schedule::slot_request what{
      .prefill_tokens = 1, .computed_tokens = computed, .max_outputs = std::min(left, room)};
  if (const auto ok = admit(*std::move(s), what, slot); !ok) return refuse(ok.error());
  const uint64_t number = state.next_transfer++;
  state.transfers.emplace(number,
                          engine_transfer{slot, std::max(1u, msg.get().getCredit()), promise, msg});
  const engine_impl_actor me{self_};
  pull_sequence(*state.setup.transport, msg.get().getSequence(),
                state.setup.config.transfer_deadline,
                [me, number](const result<void>& outcome, std::vector<model::state_part> parts) {
                  caf::anon_send(me, sequence_pulled{number, outcome, std::move(parts)});
                });
  return promise;
}

void engine_core::grant(slot_id slot, uint32_t outputs) {
  for (auto& [number, transfer] : self_->state.transfers)
    if (transfer.slot == slot) {
      const uint32_t room = UINT32_MAX - transfer.credit;
      transfer.credit += std::min(outputs, room);
      return;
    }
  self_->state.planner.grant(slot, outputs);
  pump();
}

void engine_core::receiver_gone(const caf::actor_addr& sink) {
  std::vector<slot_id> orphans;
  for (const auto& [slot, s] : self_->state.sequences)
    if (!s.ended && s.sink.address() == sink) orphans.push_back(slot);
  for (const slot_id slot : orphans) drop(slot);
  std::vector<uint64_t> leases;
  for (const auto& [request, staged] : self_->state.staged)
    if (staged.sink.address() == sink) leases.push_back(staged.lease);
  for (const uint64_t lease : leases) hand_over_failed(lease);
}

caf::typed_response_promise<wire::msg<wire::Ack>> engine_core::drain() {
  engine_state& state = self_->state;
  state.draining = true;
  state.drained = self_->make_response_promise<wire::msg<wire::Ack>>();
  report();
  const auto promise = state.drained;
  answer_drain();
  return promise;
}

void engine_core::answer_drain() {
  engine_state& state = self_->state;
  const bool empty = state.planner.idle() && state.transfers.empty() && state.ring_pulls == 0 &&
                     state.staging->leases().live() == 0;
  if (state.draining && empty && state.drained.pending())
    state.drained.deliver(wire::msg<wire::Ack>{});
}

bool engine_core::is_stuck() const {
  const engine_state& state = self_->state;
  return state.planner.load().steps_in_flight > 0 &&
         now() - state.last_step >= state.setup.config.stuck_after;
}

void engine_core::pulled(sequence_pulled& result) {
  engine_state& state = self_->state;
  const auto found = state.transfers.find(result.transfer);
  if (found == state.transfers.end()) return;
  engine_transfer transfer = std::move(found->second);
  state.transfers.erase(found);
  const auto give_up = [&](const failure& why) {
    state.card.count("transfers_failed");
    transfer.promise.deliver(to_caf(why));
    drop(transfer.slot);
  };
  if (!result.outcome) return give_up(result.outcome.error());
  const auto entry = state.sequences.find(transfer.slot);
  if (entry == state.sequences.end() || entry->second.ended)
    return give_up({error_code::cancelled, "cancelled while its state was on the way"});
  engine_sequence& s = entry->second;
  const std::span computed{s.tokens.data(), s.tokens.size() - 1};
  auto imported = state.setup.model->import_state(result.parts, computed);
  if (!imported) return give_up(imported.error());
  s.cell->state = *std::move(imported);
  persist_shared(s, result.parts);
  state.card.count("accepted");
  wire::draft<wire::Accepted> accepted;
  accepted->setKey(transfer.submit.get().getKey());
  transfer.promise.deliver(accepted.freeze());
  state.planner.grant(transfer.slot, transfer.credit);
  pump();
}

step_job_row engine_core::job_row(const schedule::planned_row& row) {
  engine_sequence& s = self_->state.sequences.at(row.slot);
  step_job_row out;
  out.slot = row.slot;
  out.cell = s.cell;
  out.sample = row.sample;
  out.sampling = s.sampling;
  out.life = s.life;
  if (row.prefill) {
    const auto first = s.tokens.begin() + row.first;
    out.tokens.assign(first, first + row.count);
    out.tokens_to_come = static_cast<uint32_t>(s.tokens.end() - (first + row.count));
  }
  // A prefill engine hands the sequence over behind its only output.
  out.export_state = row.sample && self_->state.setup.role == engine_role::prefill;
  plan_read_out(s, row, out);
  return out;
}

void engine_core::pump() {
  engine_state& state = self_->state;
  hurry_hits();
  for (const slot_id slot : state.planner.placed()) check_hit(slot);
  while (auto plan = state.planner.plan()) {
    if (state.planner.load().steps_in_flight == 1) state.last_step = now();
    step_job job;
    job.number = plan->number;
    job.rows.reserve(plan->rows.size());
    for (const auto& row : plan->rows) {
      job.rows.push_back(job_row(row));
      if (state.sequences.at(row.slot).hit) job.is_rated = false;
    }
    const batch_actor& worker = state.batches[plan->number % 2];
    self_->send(worker, std::move(job));
    state.card.sent(worker);
    state.card.count("steps");
  }
}

void engine_core::step_over(step_done& done) {
  self_->state.last_step = now();
  self_->state.prefill_rate.measured(done.prefilled, done.took, now());
  for (step_result_row& row : done.rows) {
    const auto found = self_->state.sequences.find(row.slot);
    if (found != self_->state.sequences.end() && row.life == found->second.life)
      take_read_out(found->second, row);
    if (found == self_->state.sequences.end() || found->second.ended) {
      if (row.token >= 0) self_->state.card.count("tokens_wasted");  // EN-3
      continue;
    }
    if (row.life != found->second.life) continue;
    if (row.failed && row.state_missing && found->second.hit) {
      restart(row.slot);
    } else if (row.failed) {
      fail(row.slot, {error_code::internal, "the model could not compute the next token"});
    } else if (row.token >= 0) {
      sampled(row.slot, row);
    }
  }
  self_->state.planner.complete(done.number);
  collect_freed();
  pump();
}

void engine_core::fail(slot_id slot, const failure& why) {
  engine_state& state = self_->state;
  state.card.count("failed");
  send_tokens(state.sequences.at(slot), {}, wire::FinishReason::FAILED, why);
  finish(slot);
}

void engine_core::finish(slot_id slot) {
  engine_state& state = self_->state;
  engine_sequence& s = state.sequences.at(slot);
  if (s.ended) return;
  s.ended = true;
  abandon_hit(slot);
  unwatch(s.sink);
  if (const auto found = state.by_request.find(s.request);
      found != state.by_request.end() && found->second == slot)
    state.by_request.erase(found);
  state.planner.finish(slot);
  report_soon();
}

void engine_core::watch(const leg_sink_actor& sink) {
  if (++self_->state.watched[sink.address()] == 1) self_->monitor(sink);
}

void engine_core::unwatch(const leg_sink_actor& sink) {
  const auto found = self_->state.watched.find(sink.address());
  if (found == self_->state.watched.end() || --found->second != 0) return;
  self_->demonitor(found->first);
  self_->state.watched.erase(found);
}

void engine_core::drop(slot_id slot) {
  if (self_->state.sequences.contains(slot)) finish(slot);
  collect_freed();
  pump();
}

void engine_core::collect_freed() {
  for (const slot_id slot : self_->state.planner.freed()) self_->state.sequences.erase(slot);
  answer_drain();
}

void engine_core::expire() {
  engine_state& state = self_->state;
  for (const uint64_t id : state.staging->leases().due(now())) {
    state.card.count("leases_expired");
    hand_over_failed(id);
  }
  std::vector<slot_id> late;
  for (const auto& [slot, s] : state.sequences)
    if (!s.ended && s.deadline <= now()) late.push_back(slot);
  for (const slot_id slot : late)
    fail(slot, {error_code::deadline_exceeded, "the request did not end within its time limit"});
  collect_freed();
}

// A change of load is told at once, but not more often than while working.
void engine_core::report_soon() {
  if (now() - self_->state.last_report >= self_->state.setup.config.report_busy) report();
}

void engine_core::report() {
  engine_state& state = self_->state;
  state.last_report = now();
  const auto load = state.planner.load();
  const auto& limits = state.setup.config.planner;
  wire::draft<wire::LoadReport> out;
  write_ref(out->initEngine(), state.self_ref);
  out->setRole(state.setup.role == engine_role::prefill ? "prefill" : "decode");
  out->setAccepting(load.waiting < limits.max_waiting && !state.draining && !is_stuck());
  out->setQueuedTokens(load.queued_tokens);
  out->setRunningSequences(load.running + load.waiting);
  out->setMaxSequences(limits.max_sequences);
  out->setContextTokens(load.context_tokens);
  out->setFreeTokens(load.free_tokens);
  out->setNumber(++state.report_number);
  const auto message = out.freeze();
  for (const auto& subscriber : state.subscribers) {
    self_->send(subscriber, message);
    state.card.sent(subscriber);
  }
}

}  // namespace deepinfer
