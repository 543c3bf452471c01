#pragma once

#include "actors/messages/cache.hpp"
#include "actors/messages/introspection.hpp"
#include "proto/types/result.hpp"
#include "proto/wire/kv.capnp.h"
#include "proto/wire/request.capnp.h"
#include "runtime/model/step_model.hpp"
#include "runtime/schedule/step_planner.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace deepinfer {

/// Takes what a leg produces; implemented by the request actor.
using leg_sink_actor = caf::typed_actor<caf::reacts_to<wire::msg<wire::SequenceReady>>,
                                        caf::reacts_to<wire::msg<wire::Tokens>>>;

/// Takes load reports; implemented by the balancers.
using load_sink_actor = caf::typed_actor<caf::reacts_to<wire::msg<wire::LoadReport>>>;

/// One instance rank, prefill or decode, anywhere in the cluster.
using engine_actor = caf::typed_actor<
    // Queues a prompt; `SequenceReady` follows. `no_capacity`: ask another engine.
    caf::replies_to<wire::msg<wire::PrefillSubmit>>::with<wire::msg<wire::Accepted>>,
    // Reserves, pulls and verifies the sequence, then answers; `Tokens` follow.
    caf::replies_to<wire::msg<wire::DecodeSubmit>>::with<wire::msg<wire::Accepted>>,
    caf::reacts_to<wire::msg<wire::Cancel>>,
    caf::reacts_to<wire::msg<wire::Credit>>,
    caf::reacts_to<wire::msg<wire::LoadSubscribe>>,
    caf::reacts_to<wire::msg<wire::LeaseRenew>>,
    caf::reacts_to<wire::msg<wire::LeaseRelease>>,
    caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

// ---- inside one process: engine <-> batch -------------------------------------------------------

/// Owns one sequence's state. Only the batch whose turn it is touches `state`; the engine keeps the
/// cell alive until no step in flight refers to it.
struct sequence_cell {
  std::unique_ptr<model::sequence> state;
};

struct step_job_row {
  schedule::slot_id slot{};
  std::shared_ptr<sequence_cell> cell;
  std::vector<int32_t> tokens;  ///< prefill chunk; empty: go on behind the last sampled token
  uint32_t tokens_to_come = 0;  ///< of the same prompt, behind this chunk
  bool sample = false;
  bool export_state = false;  ///< a hand-over follows: the parts come back with the result
  bool export_rings = false;  ///< the row ends on a block boundary; its rings come back
  /// Full blocks to read out behind the row; at most to where it ends.
  uint32_t first_block = 0;
  uint32_t block_count = 0;
  uint32_t life = 0;  ///< of the sequence's state; comes back with the result
  model::sampling_params sampling;
};

/// One step, planned while the step before it is being computed.
struct step_job {
  uint64_t number = 0;
  std::vector<step_job_row> rows;
  bool is_rated = true;  ///< its time goes into the rate of computing
};

struct step_result_row {
  schedule::slot_id slot{};
  int32_t token = -1;  ///< sampled, or -1
  bool failed = false;
  bool state_missing = false;            ///< `failed` because blocks of the prefix never came
  uint32_t life = 0;                     ///< of the row
  std::vector<token_logprobs> logprobs;  ///< of `token`, when asked for
  std::vector<model::state_part> parts;
  std::vector<model::state_part> rings;   ///< when asked for
  std::vector<model::state_part> blocks;  ///< when asked for
};

struct step_done {
  uint64_t number = 0;
  uint32_t prefilled = 0;           ///< tokens of prompts, of rated steps
  std::chrono::nanoseconds took{};  ///< 0 in simulation
  std::vector<step_result_row> rows;
};

/// "The device is yours": goes round between the batches of an engine, so that steps are computed
/// in the order they were planned although each batch has a thread of its own.
struct step_turn {
  uint64_t number = 0;  ///< of the step that may be computed now
};

struct batch_sibling;

using batch_actor =
    caf::typed_actor<caf::reacts_to<step_job>,
                     caf::reacts_to<step_turn>,
                     caf::reacts_to<batch_sibling>,
                     caf::replies_to<wire::msg<wire::Inspect>>::with<wire::msg<wire::ActorInfo>>>;

/// Who computes next; sent once after both batches were spawned.
struct batch_sibling {
  batch_actor handle;
};

/// All one-sided reads of a hand-over are over.
struct sequence_pulled {
  uint64_t transfer = 0;
  result<void> outcome;
  std::vector<model::state_part> parts;
};

/// Window rings for a prefix hit are here, or why not.
struct rings_arrived {
  schedule::slot_id slot{};
  uint32_t life = 0;
  result<void> outcome;
  std::vector<model::state_part> parts;
};

/// A fetch process that was told to answer at once has had its time.
struct fetch_overdue {
  schedule::slot_id slot{};
  uint32_t life = 0;
};

/// More of what nobody took over is read out for the stores.
struct read_out_more {};

struct engine_tick {};

/// Takes nothing new; answered when nothing is left, sequences waiting to be fetched included.
struct drain_engine {};

}  // namespace deepinfer

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::step_job)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::step_done)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::step_turn)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::batch_sibling)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::sequence_pulled)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::rings_arrived)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::fetch_overdue)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::read_out_more)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::engine_tick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(deepinfer::drain_engine)
