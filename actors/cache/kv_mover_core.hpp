#pragma once

#include "actors/cache/kv_mover.hpp"
#include "actors/messages/errors.hpp"

#include <utility>

namespace deepinfer {

/// What a mover's handlers do; the state is the actor's.
class kv_mover_core {
public:
  using self_ptr = kv_mover_actor::stateful_pointer<kv_mover_state>;

  explicit kv_mover_core(self_ptr self) : self_(self) {}

  result<void> start(const kv_mover_setup& setup);
  void members(wire::Members::Reader members);
  void tick();
  void step(uint64_t turn);
  void work_done();
  void stop();
  [[nodiscard]] wire::msg<wire::ActorInfo> inspect();

private:
  // stores, time, purges (kv_mover.cpp)
  void ask_stores();
  void show_placement();
  void begin_walk(policy::walk_kind kind);
  void end_walk();
  void give_up_walk();
  void remember_sent(const storage::block_key& owner,
                     storage::scope_id scope,
                     std::chrono::nanoseconds read_at);
  void follow_purges();
  void ask_to_purge();
  void ask_to_purge(const storage::block_key& owner, storage::scope_id scope);

  // a walk (kv_mover_walk.cpp)
  void next_group();
  void load_heads();
  void take_head(const storage::block_key& head);
  void step_group(moving_group& group);
  void load_page(moving_group& group);
  void page_loaded(moving_group& group, result<std::vector<storage::group_block>> page);
  void choose_owner(moving_group& group);
  void owners_served(moving_group& group);
  void ask_owner(moving_group& group, const kv_store_actor& store);
  void owner_has(moving_group& group, wire::KvHas::Reader has);
  void send(moving_group& group);
  void send_copies(moving_group& group, size_t count);
  void copies_read(moving_group& group,
                   size_t count,
                   const std::shared_ptr<read_work>& read,
                   std::chrono::nanoseconds read_at);
  void copies_answered(moving_group& group,
                       const std::vector<size_t>& sent,
                       size_t count,
                       wire::KvPutDone::Reader done);
  void copied(moving_group& group);
  void confirm(moving_group& group, size_t count);
  void confirmed(moving_group& group, size_t count, wire::KvPutDone::Reader done);
  void owner_failed(moving_group& group, const char* why);
  void owner_done(moving_group& group);
  void give_away(moving_group& group);
  void given_away(moving_group& group, const result<uint64_t>& removed);
  void moved();
  void over(bool waits);

  /// The walk goes on with the next message, or after a pause.
  void go_on(std::chrono::nanoseconds pause = {});
  /// In the I/O actor; `then` hears whether the walk that asked still goes on.
  void work(std::function<void()> run, std::function<void(bool goes_on)> then);
  /// `then` if the walk that asked still goes on; `failed` likewise.
  template <class Answer, class Query, class Then, class Failed>
  void ask(const kv_store_actor& store, const Query& query, Then then, Failed failed) {
    kv_mover_state& state = self_->state;
    ++state.open;
    const auto guarded = [self = self_, turn = state.turn](auto act) {
      --self->state.open;
      if (turn == self->state.turn && self->state.group) act(*self->state.group);
    };
    self_->request(store, state.setup.config.put_deadline + answer_slack, query)
        .then(
            [guarded, then](const Answer& answer) mutable {
              guarded([&](moving_group& group) { then(group, answer); });
            },
            [guarded, failed](const caf::error& e) mutable {
              guarded([&](moving_group& group) { failed(group, from_caf(e)); });
            });
    state.card.sent(store);
  }

  [[nodiscard]] std::chrono::nanoseconds now() const {
    return self_->clock().now().time_since_epoch();
  }
  [[nodiscard]] storage::clock_reading clocks() const {
    return {self_->state.setup.wall(),
            std::chrono::duration_cast<std::chrono::milliseconds>(now())};
  }
  [[nodiscard]] storage::block_store& store() const { return *self_->state.setup.backing.store; }
  [[nodiscard]] move_sender sender() const;

  /// A store answers by the deadline in the message; that answer's way, and no longer.
  static constexpr std::chrono::seconds answer_slack{1};

  self_ptr self_;
};

}  // namespace deepinfer
