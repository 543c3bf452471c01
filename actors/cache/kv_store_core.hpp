#pragma once

#include "actors/cache/kv_store.hpp"

namespace deepinfer {

/// What a store's handlers do. One for each handled message; the state is the actor's.
class kv_store_core {
public:
  using self_ptr = kv_store_impl_actor::stateful_pointer<kv_store_state>;

  explicit kv_store_core(self_ptr self) : self_(self) {}

  result<void> start(const kv_store_setup& setup);

  // writing (kv_store_put.cpp)
  caf::typed_response_promise<wire::msg<wire::KvPutDone>> put(const wire::msg<wire::KvPut>& msg);
  void pulled(uint64_t number);

  // reading (kv_store_read.cpp)
  caf::typed_response_promise<wire::msg<wire::KvOpened>> open(wire::KvOpen::Reader msg);
  caf::typed_response_promise<wire::msg<wire::KvReadDone>> read(wire::KvRead::Reader msg);
  void renew(wire::KvRenew::Reader msg);
  void close(wire::KvClose::Reader msg);
  void report_bad(wire::KvReportBad::Reader msg);
  void release_read(uint64_t lease);
  void expire_reads();

  // telling (kv_store_feed.cpp)
  caf::typed_response_promise<wire::msg<wire::KvChanges>> changes(wire::KvChangesQuery::Reader msg);
  caf::typed_response_promise<wire::msg<wire::KvSnapshotPage>> snapshot(
      wire::KvSnapshotQuery::Reader msg);
  [[nodiscard]] wire::msg<wire::KvInfo> info() const;
  caf::result<wire::msg<wire::KvHas>> have(wire::KvHave::Reader msg);
  caf::typed_response_promise<wire::msg<wire::KvPurged>> purge(wire::KvPurge::Reader msg);
  wire::msg<wire::Ack> acknowledge_clock();
  void changed();
  void feed();

  // all
  /// The deadline of an open put, read or waiter has come.
  void late(uint64_t number);
  caf::typed_response_promise<wire::msg<wire::Ack>> drain();
  void set_gauges();
  void work_done(uint64_t number);

private:
  enum class lane : uint8_t { reads, writes };

  /// `then` follows in this actor. False: too much waits already.
  [[nodiscard]] bool submit(lane where, std::function<void()> run, std::function<void()> then);
  void dispatch();
  void hand_over(lane where, queued_work work);
  void answer_drain();
  void late_after(uint64_t number, std::chrono::nanoseconds wait);

  void put_reserved(uint64_t number);
  void pull_waiting();
  void pull(uint64_t number);
  void end_put(uint64_t number);
  void answer_put(open_put& put);
  void let_go(wire::Lease::Reader lease);

  void open_done(const std::shared_ptr<open_work>& work,
                 caf::typed_response_promise<wire::msg<wire::KvOpened>> promise);
  [[nodiscard]] bool make_room(read_work& work);
  void read_over(uint64_t number);

  [[nodiscard]] storage::block_store& store() const { return *self_->state.setup.backing.store; }
  [[nodiscard]] std::chrono::nanoseconds now() const {
    return self_->clock().now().time_since_epoch();
  }
  [[nodiscard]] storage::clock_reading clocks() const {
    return {self_->state.setup.wall(),
            std::chrono::duration_cast<std::chrono::milliseconds>(now())};
  }

  self_ptr self_;
};

}  // namespace deepinfer
