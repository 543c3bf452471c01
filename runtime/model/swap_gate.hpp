#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace deepinfer::model {

/// The events of a prefix hit, one per stage: opened by the thread that copies, awaited by the one
/// that steps. What was written before `open` may be read behind `pass`.
class swap_gate {
public:
  explicit swap_gate(uint32_t stages) : open_(stages, false), shut_(stages) {}

  void open(uint32_t stage);
  /// Does nothing once every stage is open: nothing is left that could fail to come.
  void give_up();
  /// Waits until the stage is open. False when somebody gave up, or once `most` has passed: then
  /// this gives up itself, so that nobody waits twice for the same bytes.
  [[nodiscard]] bool pass(uint32_t stage, std::chrono::milliseconds most);
  [[nodiscard]] bool all_open() const;
  [[nodiscard]] bool given_up() const;
  /// Waits that began before their stage was open.
  [[nodiscard]] const std::atomic<uint32_t>& blocked() const { return blocked_; }

private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> open_;
  uint32_t shut_;  ///< stages that are not open
  bool given_up_ = false;
  std::atomic<uint32_t> blocked_ = 0;
};

}  // namespace deepinfer::model
