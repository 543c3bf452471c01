#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace deepinfer {

/// Places for answers under way at one gateway. A request takes one when it is admitted and, once
/// its body is read, one more for each further choice. Thread-safe: the gateway and its requests
/// run anywhere.
class answer_places {
public:
  explicit answer_places(uint32_t limit) : limit_(limit) {}

  [[nodiscard]] bool take(uint32_t count) {
    uint32_t taken = taken_.load();
    do
      if (count > limit_ - taken) return false;
    while (!taken_.compare_exchange_weak(taken, taken + count));
    return true;
  }
  void give_back(uint32_t count) { taken_ -= count; }
  [[nodiscard]] uint32_t taken() const { return taken_; }

private:
  uint32_t limit_;
  std::atomic<uint32_t> taken_{0};
};

/// What one request holds of them; given back when it ends, however it ends.
class held_places {
public:
  explicit held_places(std::shared_ptr<answer_places> of) : of_(std::move(of)) {}
  ~held_places() { of_->give_back(held_); }
  held_places(const held_places&) = delete;
  held_places& operator=(const held_places&) = delete;

  [[nodiscard]] bool take(uint32_t count) {
    if (!of_->take(count)) return false;
    held_ += count;
    return true;
  }

private:
  std::shared_ptr<answer_places> of_;
  uint32_t held_ = 0;
};

}  // namespace deepinfer
