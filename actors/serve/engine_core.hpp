#pragma once

#include "actors/serve/engine.hpp"

#include <span>
#include <string_view>

namespace deepinfer {

/// What the engine does, one function per thing that happens to it; a view over the actor's state,
/// made anew in each handler. Decisions are the planner's; this carries them out.
class engine_core {
public:
  explicit engine_core(engine_impl_actor::stateful_pointer<engine_state> self) : self_(self) {}

  result<void> start(const engine_setup& setup);

  result<wire::msg<wire::Accepted>> prefill(wire::PrefillSubmit::Reader msg);
  caf::typed_response_promise<wire::msg<wire::Accepted>> decode(
      const wire::msg<wire::DecodeSubmit>& msg);
  void pulled(sequence_pulled& result);
  void step_over(step_done& done);

  // engine_restore.cpp: events of prefix hits
  void members(wire::Members::Reader table);
  void fetched(schedule::slot_id slot, uint32_t life, const wire::msg<wire::KvFetched>& got);
  void fetch_failed(schedule::slot_id slot, uint32_t life, const failure& why);
  void fetch_overdue_at(const fetch_overdue& late);
  void pull_rings(schedule::slot_id slot, uint32_t life, const wire::msg<wire::RingReady>& ready);
  void rings_pulled(rings_arrived what);
  void hit_checked(const swap_checked& what);
  void begin_hit(const swap_begun& what);

  /// Plans and hands out steps until enough are in flight.
  void pump();
  /// Lets go of a sequence whose receiver does not want it any more.
  void drop(schedule::slot_id slot);
  /// Ends what has outlived its deadline or lease.
  void expire();
  /// More outputs may be sent; kept for later while the sequence is still on its way here.
  void grant(schedule::slot_id slot, uint32_t outputs);
  void release_lease(uint64_t id);
  /// The reader of what was staged under a lease will not come, or came in vain: its blocks are
  /// stored from here if that is what the taker would have done, then the lease ends.
  void hand_over_failed(uint64_t lease);
  void read_out_next();
  /// The receiver of a sequence has ended: nobody wants what is computed or staged for it.
  void receiver_gone(const caf::actor_addr& sink);
  /// Frees what was staged for that leg, if it still is.
  void forget_staged(const request_id& request, leg_epoch leg);
  caf::typed_response_promise<wire::msg<wire::Ack>> drain();
  /// Tries again to stage sequences that found the staging area full.
  void restage();
  /// Sends the load to all subscribers.
  void report();

private:
  [[nodiscard]] std::chrono::nanoseconds now() const {
    return self_->clock().now().time_since_epoch();
  }
  result<void> admit(engine_sequence sequence,
                     const schedule::slot_request& what,
                     schedule::slot_id& slot);
  step_job_row job_row(const schedule::planned_row& row);
  void sampled(schedule::slot_id slot, step_result_row& row);
  // engine_restore.cpp
  [[nodiscard]] schedule::restore_rates rates() const;
  [[nodiscard]] schedule::restore_choice choose(const engine_sequence& s,
                                                uint32_t blocks,
                                                uint64_t block_bytes,
                                                std::span<const schedule::ring_offer> rings) const;
  bool plan_hit(engine_sequence& s, wire::CacheHint::Reader hint);
  [[nodiscard]] uint64_t queued_fetch_bytes() const;
  void hurry_hits();
  [[nodiscard]] std::chrono::milliseconds fetch_deadline(const engine_sequence& s) const;
  void start_hit(schedule::slot_id slot, wire::CacheHint::Reader hint);
  void ask_rings(schedule::slot_id slot, wire::CacheHint::Reader hint);
  [[nodiscard]] engine_sequence* hit_of(schedule::slot_id slot, uint32_t life);
  void hit_arrived(schedule::slot_id slot);
  void check_hit(schedule::slot_id slot);
  void compute_all(schedule::slot_id slot);
  void restart(schedule::slot_id slot);
  void release_fetch(engine_sequence& s, uint32_t used_blocks);
  void drop_copies(schedule::slot_id slot, engine_sequence& s);
  void abandon_hit(schedule::slot_id slot);
  // engine_persist.cpp
  [[nodiscard]] uint32_t ring_boundary(const engine_sequence& s) const;
  void plan_read_out(const engine_sequence& s,
                     const schedule::planned_row& row,
                     step_job_row& out) const;
  void take_read_out(engine_sequence& s, step_result_row& row);
  void persist(sequence_chain& chain,
               std::span<const int32_t> tokens,
               std::vector<model::state_part>& parts);
  /// What is computed, if `persist_by` names this engine; `persist_computed`: in any case but
  /// nobody's, when no other engine will have the sequence.
  void persist_shared(engine_sequence& s, std::vector<model::state_part>& parts);
  void persist_computed(engine_sequence& s, std::vector<model::state_part>& parts);
  [[nodiscard]] std::optional<unsent_blocks> unsent(const engine_sequence& s,
                                                    const staged_sequence& staged) const;

  void hand_over(schedule::slot_id slot, std::vector<model::state_part> parts);
  bool stage(schedule::slot_id slot);
  void send_ready(schedule::slot_id slot, wire::FinishReason finish, const staged_sequence* staged);
  void send_tokens(const engine_sequence& s,
                   std::span<const int32_t> ids,
                   wire::FinishReason finish,
                   const failure& why);
  void fail(schedule::slot_id slot, const failure& why);
  void finish(schedule::slot_id slot);
  void watch(const leg_sink_actor& sink);
  void unwatch(const leg_sink_actor& sink);
  void report_soon();
  void answer_drain();
  void lease_ended(uint64_t id);
  [[nodiscard]] bool is_stuck() const;
  void collect_freed();
  [[nodiscard]] wire::FinishReason finish_of(const engine_sequence& s, int32_t token) const;

  engine_impl_actor::stateful_pointer<engine_state> self_;
};

}  // namespace deepinfer
