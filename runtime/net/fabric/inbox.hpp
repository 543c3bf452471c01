#pragma once

#include "runtime/net/owned_fd.hpp"

#include <sys/eventfd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace deepinfer::net {

/// Wakes a thread that sleeps in `poll`, and costs nothing while it is awake. The sleeper says
/// `prepare`, looks at its inboxes once more, and only then sleeps: so no wake-up is lost.
class waker {
public:
  waker() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  [[nodiscard]] int fd() const { return fd_.get(); }
  void wake() {
    if (!asleep_.exchange(false)) return;
    const uint64_t one = 1;
    (void)!::write(fd_.get(), &one, sizeof one);
  }
  void prepare() { asleep_.store(true); }
  void awake() {
    if (asleep_.exchange(false)) return;  // nobody wrote
    uint64_t count = 0;
    (void)!::read(fd_.get(), &count, sizeof count);
  }

private:
  owned_fd fd_;
  std::atomic<bool> asleep_{false};
};

/// Many writers, one reader. Writers bound what they put in; see the users.
template <class T>
class inbox {
public:
  explicit inbox(waker& owner) : waker_(owner) {}

  /// False, and nothing is kept, once the reader has closed.
  bool push(T item) {
    {
      const std::lock_guard lock{mutex_};
      if (closed_) return false;
      items_.push_back(std::move(item));
      count_.store(items_.size());
    }
    waker_.wake();
    return true;
  }
  void close() {
    const std::lock_guard lock{mutex_};
    closed_ = true;
  }
  [[nodiscard]] bool empty() const { return count_.load() == 0; }
  /// Everything that is there, in order.
  [[nodiscard]] std::vector<T> take() {
    if (empty()) return {};
    const std::lock_guard lock{mutex_};
    count_.store(0);
    return std::exchange(items_, {});
  }

private:
  waker& waker_;
  std::mutex mutex_;
  std::vector<T> items_;
  bool closed_ = false;
  std::atomic<size_t> count_{0};
};

}  // namespace deepinfer::net
