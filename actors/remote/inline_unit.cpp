#include "actors/remote/inline_unit.hpp"

#include <caf/actor_system.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

namespace deepinfer::remote {

inline_unit::inline_unit(caf::actor_system& system, budget per_turn)
    : caf::execution_unit(&system), per_turn_(per_turn) {}

void inline_unit::allow(caf::resumable* job) {
  const std::lock_guard lock{mutex_};
  allowed_.insert(job);
}

void inline_unit::forbid(caf::resumable* job) {
  const std::lock_guard lock{mutex_};
  allowed_.erase(job);
}

bool inline_unit::allowed(caf::resumable* job) const {
  const std::lock_guard lock{mutex_};
  return allowed_.contains(job);
}

void inline_unit::exec_later(caf::resumable* job) {
  if (taken_ < per_turn_.jobs && allowed(job)) {
    ++taken_;
    ready_.push_back(job);
  } else {
    system().scheduler().enqueue(job);
  }
}

void inline_unit::run() {
  // A job may make others ready, so the list grows while it is walked; `taken_` ends that.
  for (size_t i = 0; i < ready_.size(); ++i) {
    caf::resumable* job = ready_[i];
    runs_.fetch_add(1, std::memory_order_relaxed);
    switch (job->resume(this, per_turn_.messages)) {
      case caf::resumable::resume_later:
        system().scheduler().enqueue(job);
        break;
      case caf::resumable::done:
      case caf::resumable::awaiting_message:
        caf::intrusive_ptr_release(job);
        break;
      case caf::resumable::shutdown_execution_unit:
        break;
    }
  }
  ready_.clear();
  taken_ = 0;
}

}  // namespace deepinfer::remote
