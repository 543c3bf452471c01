#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace deepinfer::model {

/// How long one step may wait for blocks, all its hits together: several loaders that stall hold it
/// up once.
class swap_patience {
public:
  explicit swap_patience(std::chrono::milliseconds most) : left_(most) {}

  [[nodiscard]] std::chrono::milliseconds left() const { return left_; }
  /// The next piece of a wait, which counts as a whole: nobody here reads a clock.
  [[nodiscard]] std::chrono::milliseconds take() {
    const auto piece = std::min(left_, piece_);
    left_ -= piece;
    return piece;
  }

private:
  static constexpr std::chrono::milliseconds piece_{5};
  std::chrono::milliseconds left_;
};

/// The events of a prefix hit, one per stage: opened by the thread that copies, awaited by the one
/// that steps. What was written before `open` may be read behind `pass`.
class swap_gate {
public:
  explicit swap_gate(uint32_t stages) : open_(stages, false), shut_(stages) {}

  void open(uint32_t stage);
  /// Does nothing once every stage is open: nothing is left that could fail to come.
  void give_up();
  /// Waits until the stage is open. False when somebody gave up, or once the patience has run out:
  /// then this gives up itself, so that nobody waits twice for the same bytes.
  [[nodiscard]] bool pass(uint32_t stage, swap_patience& patience);
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
