#include "runtime/model/swap_gate.hpp"

namespace deepinfer::model {

void swap_gate::open(uint32_t stage) {
  {
    const std::lock_guard lock(mutex_);
    if (open_[stage]) return;
    open_[stage] = true;
    --shut_;
  }
  changed_.notify_all();
}

void swap_gate::give_up() {
  {
    const std::lock_guard lock(mutex_);
    if (shut_ == 0) return;
    given_up_ = true;
  }
  changed_.notify_all();
}

bool swap_gate::pass(uint32_t stage, std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  if (!open_[stage] && !given_up_) {
    blocked_.fetch_add(1);
    blocked_.notify_all();
    if (!changed_.wait_for(lock, most, [&] { return open_[stage] || given_up_; })) given_up_ = true;
  }
  return !given_up_;
}

bool swap_gate::all_open() const {
  const std::lock_guard lock(mutex_);
  return shut_ == 0;
}

bool swap_gate::given_up() const {
  const std::lock_guard lock(mutex_);
  return given_up_;
}

}  // namespace deepinfer::model
