#pragma once

#include "proto/types/result.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace deepinfer::schedule {

/// Number of a sequence inside one engine; never used twice.
enum class slot_id : uint64_t {};

struct planner_config {
  uint32_t max_sequences = 64;     ///< admitted at once
  uint32_t max_waiting = 256;      ///< accepted but not admitted; over it `no_capacity`
  uint32_t step_tokens = 512;      ///< most tokens computed in one step
  uint32_t chunk_tokens = 256;     ///< longest prefill chunk; chunks start at multiples of it
  uint64_t state_tokens = 262144;  ///< state space of the engine, in tokens
  uint32_t steps_in_flight = 2;    ///< EN-2: one computing, one prepared behind it
  uint32_t block_tokens = 128;     ///< of `planned_row::ends_block`
};

/// What an engine takes on: tokens to prefill, then outputs to sample.
struct slot_request {
  uint32_t prefill_tokens = 0;   ///< to compute before the first output; at least one
  uint32_t computed_tokens = 0;  ///< state that came with a hand-over
  uint32_t max_outputs = 0;      ///< sampled here, at most; 1 on a prefill engine
  uint32_t credit = 0;           ///< outputs the receiver can take now
  uint32_t cut_at = 0;           ///< position at which a prefill chunk ends besides; 0: none
  bool held = false;             ///< part of the state is on its way: waits for `begin`
};

/// One sequence's share of a step.
struct planned_row {
  slot_id slot{};
  uint32_t first = 0;       ///< position of the first computed token
  uint32_t count = 0;       ///< tokens computed; a decode row computes one
  bool prefill = false;     ///< the tokens come from the prompt, else the last sampled one
  bool sample = false;      ///< an output is chosen behind the last computed token
  bool ends_block = false;  ///< the last computed token is the last one of a block
};

struct step_plan {
  uint64_t number = 0;  ///< counts up from 1
  std::vector<planned_row> rows;
  uint32_t tokens = 0;
};

struct planner_load {
  uint64_t queued_tokens = 0;
  uint32_t running = 0;
  uint32_t waiting = 0;
  uint64_t context_tokens = 0;
  uint64_t free_tokens = 0;
  uint32_t steps_in_flight = 0;
};

/// Continuous batching with steps in flight; pure, without model, threads or clock. `plan()` gives
/// the next step on the assumption that every running sequence goes on (EN-2); what turns out
/// wrong after the step before it (end of sequence, cancel) is computed in vain and dropped by the
/// caller (EN-3). A slot's state may be freed only when no step in flight refers to it:
/// `freed()` lists those.
///
/// A held slot waits for state that others bring (a prefix hit): it is passed by those behind it
/// until that has arrived, then takes its place in the order in which it was added, and no row of
/// it is planned before `begin`.
class step_planner {
public:
  explicit step_planner(const planner_config& config) : config_(config) {}

  /// `no_capacity` over `max_waiting`; `invalid_argument` if it can never fit the state space.
  result<slot_id> add(const slot_request& what);
  /// What a held slot was held for is here: it takes its place when its turn comes, and is named
  /// by `placed`.
  void arrived(slot_id slot);
  /// Held slots that have arrived and have got their place since the last call, each named once:
  /// state may be put into them now.
  [[nodiscard]] std::vector<slot_id> placed();
  /// Held slots that have not arrived and would be computed in the next step if they were not
  /// held: it is their turn, there is a place for them, and the step has room. None while no step
  /// can be planned.
  [[nodiscard]] std::vector<slot_id> due() const;
  /// Ends a hold: the first `computed_tokens` are there, the rest is prefilled. Without a place
  /// (nothing arrived) it takes its turn as if it had never been held; `computed_tokens` is 0 then.
  void begin(slot_id slot, uint32_t computed_tokens);
  /// The state proved missing: everything is computed again, from position 0. Rows in flight are
  /// the caller's to ignore.
  void restart(slot_id slot);
  /// More outputs may be sampled.
  void grant(slot_id slot, uint32_t outputs);
  /// No further rows; freed once no step in flight refers to it. Unknown slots are ignored.
  void finish(slot_id slot);

  /// The next step, or nothing: no work, or enough steps in flight.
  [[nodiscard]] std::optional<step_plan> plan();
  /// The step is over, all of its rows. Steps end in the order they were planned.
  void complete(uint64_t number);
  /// Slots whose state can be freed now, each named once.
  [[nodiscard]] std::vector<slot_id> freed();

  [[nodiscard]] planner_load load() const;
  [[nodiscard]] bool idle() const { return slots_.empty() && in_flight_.empty(); }

private:
  struct slot {
    slot_request what;
    uint32_t prefilled = 0;   ///< planned prefill tokens
    uint32_t outputs = 0;     ///< planned outputs
    uint32_t references = 0;  ///< steps in flight
    bool waits = false;       ///< held, and not arrived: others pass it
    bool admitted = false;
    bool finished = false;
  };

  [[nodiscard]] static uint64_t space(const slot_request& what);
  [[nodiscard]] static bool can_prefill(const slot& s);
  [[nodiscard]] uint32_t chunk_at(const slot& s) const;
  void admit();
  [[nodiscard]] bool can_decode(const slot& s) const;
  [[nodiscard]] uint32_t decode_budget() const;
  void plan_decode(step_plan& step);
  void plan_prefill(step_plan& step);
  void release_if_done(slot_id id);

  planner_config config_;
  uint64_t next_slot_ = 1;
  uint64_t next_step_ = 1;
  std::map<slot_id, slot> slots_;
  std::deque<slot_id> waiting_;
  std::deque<step_plan> in_flight_;
  std::vector<slot_id> freed_;
  std::vector<slot_id> placed_;
  uint64_t used_tokens_ = 0;  ///< reserved by admitted slots
  slot_id decode_cursor_{};   ///< first slot of the next step, so that all get their turn
};

}  // namespace deepinfer::schedule
