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

bool swap_gate::pass(uint32_t stage, swap_patience& patience) {
  std::unique_lock lock(mutex_);
  const auto decided = [&] { return open_[stage] || given_up_; };
  if (!decided() && patience.left().count() > 0) {
    blocked_.fetch_add(1);
    blocked_.notify_all();
    while (patience.left().count() > 0)
      if (changed_.wait_for(lock, patience.take(), decided)) break;
  }
  if (!decided()) given_up_ = true;
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
