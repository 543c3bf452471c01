#pragma once

#include "actors/cache/kv_store.hpp"

#include <optional>

namespace deepinfer {

/// What a store's handlers do. One for each handled message; the state is the actor's.
class kv_store_core {
public:
  using self_ptr = kv_store_impl_actor::stateful_pointer<kv_store_state>;

  using open_promise = caf::typed_response_promise<wire::msg<wire::KvOpened>>;

  explicit kv_store_core(self_ptr self) : self_(self) {}

  result<void> start(const kv_store_setup& setup);

  // writing (kv_store_put.cpp)
  caf::typed_response_promise<wire::msg<wire::KvPutDone>> put(const wire::msg<wire::KvPut>& msg);
  void pulled(uint64_t number);

  // reading (kv_store_read.cpp)
  open_promise open(wire::KvOpen::Reader msg);
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
  void purge_part_done(const std::shared_ptr<purge_work>& work);
  wire::msg<wire::Ack> acknowledge_clock();
  void changed();
  void feed();

  // all
  /// The deadline of an open put, read or waiter has come.
  void late(uint64_t number);
  caf::typed_response_promise<wire::msg<wire::Ack>> drain();
  void set_gauges();
  void work_done(uint64_t number);
  /// What goes wrong in the store, into the log.
  void watch();

private:
  /// False: too much waits already.
  [[nodiscard]] bool submit(queued_work work);
  void enqueue(queued_work work);
  void dispatch();
  [[nodiscard]] std::optional<work_lane> next_lane() const;
  void hand_over(queued_work work);
  /// Takes work that has not begun out of its queue.
  std::optional<queued_work> take_waiting(uint64_t number);
  [[nodiscard]] size_t works_waiting() const;
  /// I/O actors that have waited for the device for too long.
  [[nodiscard]] uint32_t hung() const;
  /// All that may wait for the device hang there: nothing more is sent after them.
  [[nodiscard]] bool device_hangs() const;
  [[nodiscard]] failure device_trouble() const;
  void answer_drain();
  void late_after(uint64_t number, std::chrono::nanoseconds wait);
  /// What an asker waits, as far as this store goes along.
  [[nodiscard]] std::chrono::nanoseconds asked_within(uint32_t deadline_ms) const;

  void put_reserved(uint64_t number);
  void refuse_moved(storage::scope_id scope);
  void begin_purge(const std::shared_ptr<purge_work>& work);
  [[nodiscard]] queued_work purge_part_of(const std::shared_ptr<purge_work>& work);
  [[nodiscard]] bool moved_before_purge(const put_work& work) const;
  void pull_waiting();
  void pull(uint64_t number);
  void end_put(uint64_t number);
  void answer_put(open_put& put);
  void let_go(wire::Lease::Reader lease);

  void put_skipped(uint64_t number);

  void close_unused(const storage::lease_ref& lease);
  void read_skipped(uint64_t number);
  void open_done(const std::shared_ptr<open_work>& work, open_promise& promise);
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
