#include "actors/serve/batch.hpp"

#include "proto/types/check.hpp"

#include <string>
#include <vector>

namespace deepinfer {
namespace {

std::vector<model::step_item> items_of(const step_job& job) {
  std::vector<model::step_item> items;
  items.reserve(job.rows.size());
  for (const step_job_row& row : job.rows) {
    model::step_item item;
    item.target = row.cell->state.get();
    item.tokens = row.tokens;
    item.tokens_to_come = row.tokens_to_come;
    item.sample = row.sample;
    item.sampling = row.sampling;
    items.push_back(item);
  }
  return items;
}

// Here, not in the engine: reading out a long sequence takes as long as a step.
void read_out(const model::step_model& model,
              const model::sequence& from,
              const step_job_row& row,
              step_result_row& into) {
  if (row.export_state) into.parts = model.export_state(from);
  if (row.export_rings) into.rings = model.export_rings(from);
  if (row.block_count > 0)
    into.blocks = model.export_blocks(from, row.first_block, row.block_count);
}

template <class Clock>
step_done compute(model::step_model& model, const step_job& job, const Clock& now) {
  std::vector<model::step_item> items = items_of(job);
  step_done done;
  done.number = job.number;
  const auto begun = now();
  model.step(items);
  // Steps that may have waited for blocks say nothing of how fast this engine computes.
  if (job.is_rated) {
    done.took = now() - begun;
    for (const step_job_row& row : job.rows)
      done.prefilled += static_cast<uint32_t>(row.tokens.size());
  }
  done.rows.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const bool told = items[i].sample && !items[i].failed && items[i].sampling.logprobs != 0;
    DEEPINFER_CHECK(!told || items[i].logprobs.size() == 1);  // the model's contract; no drafts
    step_result_row result;
    result.slot = job.rows[i].slot;
    result.token = items[i].sample ? items[i].sampled : -1;
    result.failed = items[i].failed;
    result.state_missing = items[i].state_missing;
    result.life = job.rows[i].life;
    result.logprobs = std::move(items[i].logprobs);
    if (!items[i].failed) read_out(model, *items[i].target, job.rows[i], result);
    done.rows.push_back(std::move(result));
  }
  return done;
}

}  // namespace

batch_actor::behavior_type batch(batch_actor::stateful_pointer<batch_state> self,
                                 const batch_config& config,
                                 const step_sink_actor& engine) {
  self->state.card = actor_card{"batch", *config.hub};
  self->state.turn = config.first_turn;
  const auto run_if_ready = [self, config, engine] {
    batch_state& state = self->state;
    if (!state.job || state.job->number != state.turn || !state.next) return;
    step_done done = compute(*config.model, *state.job, [self] { return self->clock().now(); });
    state.card.count("steps");
    state.card.count("rows", static_cast<int64_t>(done.rows.size()));
    const uint64_t following = state.turn + 1;
    state.turn = 0;
    state.job.reset();
    // The result goes before the turn: so the engine has it in its mailbox before the sibling can
    // send the next one, and hears of steps in their order although two threads compute them.
    self->send(engine, std::move(done));
    state.card.sent(engine);
    self->send(state.next, step_turn{following});
    state.card.sent(state.next);
  };
  return {
      [self, run_if_ready](const step_job& job) {
        self->state.job = job;
        run_if_ready();
      },
      [self, run_if_ready](const step_turn& turn) {
        self->state.turn = turn.number;
        run_if_ready();
      },
      [self, run_if_ready](const batch_sibling& next) {
        self->state.next = next.handle;
        run_if_ready();
      },
      [self](const wire::msg<wire::Inspect>&) {
        const batch_state& state = self->state;
        const std::string line = state.job
                                     ? "step " + std::to_string(state.job->number) + " is prepared"
                                 : state.turn != 0 ? "next"
                                                   : "idle";
        return state.card.info(*self, line);
      },
  };
}

}  // namespace deepinfer
