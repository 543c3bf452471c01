#pragma once

#include "actors/console/actor_card.hpp"
#include "actors/messages/engine.hpp"

#include <caf/stateful_actor.hpp>

#include <memory>
#include <optional>

namespace deepinfer {

using step_sink_actor = caf::typed_actor<caf::reacts_to<step_done>>;

struct batch_config {
  remote_hub* hub = nullptr;  ///< outlives the batch
  std::shared_ptr<model::step_model> model;
  uint64_t first_turn = 0;  ///< 1 for the batch that computes step 1, 0 for the other
};

struct batch_state {
  actor_card card;
  std::optional<step_job> job;  ///< prepared, waits for its turn
  uint64_t turn = 0;            ///< number of the step this batch may compute; 0: not its turn
  batch_actor next;             ///< the other batch
};

/// Computes the steps of one engine, in turns with its sibling: while one computes, the other
/// takes the next step's plan, and the engine handles results and plans. The handler that computes
/// blocks for one step, so batches are spawned detached in service.
batch_actor::behavior_type batch(batch_actor::stateful_pointer<batch_state> self,
                                 const batch_config& config,
                                 const step_sink_actor& engine);

}  // namespace deepinfer
