#pragma once

#include "actors/cache/cache_config.hpp"
#include "actors/cache/hit_metrics.hpp"
#include "actors/console/actor_card.hpp"
#include "actors/messages/engine.hpp"
#include "actors/remote/remote_hub.hpp"
#include "actors/serve/batch.hpp"
#include "actors/serve/kv_swap.hpp"
#include "actors/serve/prefix_hit_state.hpp"
#include "actors/serve/sequence_chain.hpp"
#include "actors/serve/staging_area.hpp"
#include "runtime/base/config.hpp"
#include "runtime/net/transport.hpp"
#include "runtime/schedule/request_machine.hpp"

#include <caf/response_promise.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace deepinfer {

/// Settings of one engine; section `[prefill]` or `[decode]`.
struct engine_config {
  schedule::planner_config planner;
  uint64_t staging_bytes = uint64_t{1} << 30;
  std::chrono::milliseconds lease_ttl{30000};
  std::chrono::milliseconds transfer_deadline{10000};
  std::chrono::milliseconds report_busy{100};
  std::chrono::milliseconds report_idle{1000};
  std::chrono::milliseconds stuck_after{30000};

  template <class V>
  void describe(V& v) {
    v.field("max_sequences", planner.max_sequences, between(1, 65536),
            "Sequences computed at once.");
    v.field("max_waiting", planner.max_waiting, between(0, 1000000),
            "Requests that may wait for a place.");
    v.field("step_tokens", planner.step_tokens, between(1, 65536), "Most tokens of one step.");
    v.field("chunk_tokens", planner.chunk_tokens, between(1, 65536),
            "Longest piece of a prompt in one step.");
    v.field("state_tokens", planner.state_tokens, between(128, int64_t{1} << 32),
            "State space, in tokens.");
    v.bytes("staging_bytes", staging_bytes, between(1 << 20, int64_t{1} << 42),
            "Memory for sequences on their way to another engine.");
    v.field("lease_ttl", lease_ttl, between(100, 600000),
            "How long a staged sequence waits for its reader.");
    v.field("transfer_deadline", transfer_deadline, between(100, 600000),
            "Longest time to pull a sequence.");
    v.field("report_busy", report_busy, between(10, 60000),
            "Interval of load reports while working.");
    v.field("report_idle", report_idle, between(10, 60000), "Interval of load reports while idle.");
    v.field("stuck_after", stuck_after, between(1000, 3600000),
            "A step that takes longer: the engine counts as full until it ends.");
  }
};

struct engine_setup {
  schedule::engine_role role{};
  engine_config config;
  std::shared_ptr<model::step_model> model;
  remote_hub* hub = nullptr;            ///< outlives the engine
  net::transport* transport = nullptr;  ///< outlives the engine
  cache_config cache;
  std::shared_ptr<const hit_metrics> hits;  ///< may be null
  kv_writer_actor writer;                   ///< of this process; null: nothing is stored
  std::shared_ptr<persist_budget> budget;   ///< shared with the writer
  ring_host_impl_actor rings;               ///< of this process; null: rings are not kept
  /// Spawns one of the two batch actors; only the node knows how (own thread, or simulated).
  std::function<batch_actor(const batch_config&, const step_sink_actor&)> spawn_batch;
  /// The same for the actor that swaps blocks in; empty: hints are not used.
  std::function<kv_swap_actor(const kv_swap_config&, const swap_sink_actor&)> spawn_swap;
};

using engine_impl_actor =
    engine_actor::extend<caf::replies_to<drain_engine>::with<wire::msg<wire::Ack>>,
                         caf::reacts_to<step_done>,
                         caf::reacts_to<sequence_pulled>,
                         caf::reacts_to<rings_arrived>,
                         caf::reacts_to<swap_checked>,
                         caf::reacts_to<swap_begun>,
                         caf::reacts_to<wire::msg<wire::Members>>,
                         caf::reacts_to<fetch_overdue>,
                         caf::reacts_to<read_out_more>,
                         caf::reacts_to<engine_tick>>;

/// One sequence of a request on this engine.
struct engine_sequence {
  request_id request;
  leg_epoch leg{};
  leg_sink_actor sink;
  std::shared_ptr<sequence_cell> cell;
  std::vector<int32_t> tokens;  ///< prompt and all outputs, those of earlier legs included
  uint32_t prompt_tokens = 0;
  uint32_t max_tokens = 0;  ///< of output, over all legs
  bool ignore_eos = false;
  model::sampling_params sampling;
  std::vector<token_logprobs> logprobs;  ///< of the last of `tokens`, when asked for
  std::chrono::nanoseconds deadline{};
  cache_line cache;            ///< root zero: its blocks are not stored
  uint32_t stored_blocks = 0;  ///< from the first on, that came from the cache
  uint32_t cached_tokens = 0;  ///< of the prompt, whose entries came from the cache and were used
  sequence_chain chain;        ///< what of it is stored from here
  std::shared_ptr<prefix_hit_state> hit;  ///< what of it comes from the cache; null: nothing
  storage::block_key rings;               ///< the last that were given to the host
  uint32_t life = 0;   ///< of `cell`: rows of an older one are not this sequence's any more
  bool ended = false;  ///< told to the sink, or nobody wants to know
  std::vector<model::state_part> waiting_parts;  ///< computed, but the staging area was full

  [[nodiscard]] uint32_t outputs() const {
    return static_cast<uint32_t>(tokens.size()) - prompt_tokens;
  }
};

/// A sequence that is being pulled from a prefill engine.
struct engine_transfer {
  schedule::slot_id slot{};
  uint32_t credit = 0;
  caf::typed_response_promise<wire::msg<wire::Accepted>> promise;
  wire::msg<wire::DecodeSubmit> submit;
};

/// What the engine that takes a sequence over would store of it, still in the staging area.
struct unsent_blocks {
  sequence_chain chain;
  std::vector<int32_t> tokens;     ///< computed ones
  std::vector<staged_part> parts;  ///< behind the stored ones
};

/// A hand-over that came to nothing, on its way to the writer piece by piece: reading out a long
/// one takes as long as a step. Its lease keeps it in place.
struct hand_over_read_out {
  uint64_t lease = 0;
  unsent_blocks from;
  size_t next = 0;  ///< of its parts
};

struct staged_for {
  leg_epoch leg{};
  uint64_t lease = 0;
  leg_sink_actor sink;                  ///< watched until the lease ends
  std::optional<unsent_blocks> blocks;  ///< stored from here if nobody takes the sequence (KV-17)
};

/// A measured speed is believed for so long.
inline constexpr std::chrono::seconds rates_are_good_for{60};

struct engine_state {
  engine_state() : planner(schedule::planner_config{}) {}

  actor_card card;
  engine_setup setup;
  schedule::step_planner planner;
  std::map<schedule::slot_id, engine_sequence> sequences;
  std::unordered_map<request_id, schedule::slot_id> by_request;
  std::unordered_map<uint64_t, engine_transfer> transfers;
  uint64_t next_transfer = 1;
  std::unique_ptr<staging_area> staging;
  /// Receivers and how many sequences and leases they are watched for: choices of one request have
  /// the same receiver, and CAF forgets all monitors of an actor at once.
  std::map<caf::actor_addr, uint32_t> watched;
  batch_actor batches[2];
  kv_fetch_actor fetch;  ///< of this machine; null: hints are not used
  kv_swap_actor swap;    ///< null on engines that never restore
  std::shared_ptr<storage::arena_views> arenas = std::make_shared<storage::arena_views>();
  schedule::recent_rate prefill_rate{rates_are_good_for};
  schedule::recent_rate fetch_rate{rates_are_good_for};
  uint64_t fetched_bytes = 0;  ///< of blocks that came
  schedule::recent_rate pull_rate{rates_are_good_for};
  std::vector<load_sink_actor> subscribers;
  actor_ref self_ref;
  uint64_t report_number = 0;
  std::chrono::nanoseconds last_report{};
  std::chrono::nanoseconds last_step{};  ///< when a step ended, or began on an idle engine
  /// Handed over and not yet fetched: who to free when the request is given up.
  std::unordered_map<request_id, staged_for> staged;
  std::deque<hand_over_read_out> read_outs;  ///< at most as many as fit into the staging area
  uint32_t ring_pulls = 0;                   ///< asked for, and not over
  bool draining = false;
  caf::typed_response_promise<wire::msg<wire::Ack>> drained;
};

/// Sequences, memory and step pipeline of one instance rank.
engine_impl_actor::behavior_type engine(engine_impl_actor::stateful_pointer<engine_state> self,
                                        const engine_setup& setup);

}  // namespace deepinfer
