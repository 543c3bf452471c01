#pragma once

#include <caf/execution_unit.hpp>
#include <caf/resumable.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace deepinfer::remote {

/// Runs chosen actors on the transport's thread, right after a frame for them arrived: it saves
/// two thread hops per message. Only actors whose handlers take microseconds may be chosen. All
/// others that become ready go to the normal scheduler.
///
/// `exec_later` and `run` belong to the transport's thread; `allow` and `forbid` to any.
class inline_unit : public caf::execution_unit {
public:
  struct budget {
    uint32_t jobs = 1;
    uint32_t messages = 4;
  };

  inline_unit(caf::actor_system& system, budget per_turn);

  void allow(caf::resumable* job);
  void forbid(caf::resumable* job);

  void exec_later(caf::resumable* job) override;

  /// Ends a turn: runs what was collected, hands the rest to the scheduler.
  void run();

  [[nodiscard]] uint64_t runs() const noexcept { return runs_.load(std::memory_order_relaxed); }

private:
  [[nodiscard]] bool allowed(caf::resumable* job) const;

  const budget per_turn_;
  std::vector<caf::resumable*> ready_;  ///< each with a reference, as in a scheduler's queue
  uint32_t taken_ = 0;                  ///< jobs of this turn
  std::atomic<uint64_t> runs_{0};
  mutable std::mutex mutex_;
  std::unordered_set<caf::resumable*> allowed_;
};

}  // namespace deepinfer::remote
