#include "actors/edge/encode_pool.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <system_error>

namespace deepinfer {
namespace {

/// Signals are for the threads of `main`: threads started while this lives block them all.
class blocked_signals {
public:
  blocked_signals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  blocked_signals(const blocked_signals&) = delete;
  blocked_signals& operator=(const blocked_signals&) = delete;
  ~blocked_signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
  sigset_t before_{};
};

}  // namespace

result<std::shared_ptr<encode_pool>> encode_pool::make(uint32_t helpers) {
  if (helpers > most_encode_helpers)
    return failure{error_code::invalid_argument, std::to_string(helpers) +
                                                     " encode helpers, more than " +
                                                     std::to_string(most_encode_helpers)};
  std::shared_ptr<encode_pool> pool{new encode_pool};
  const blocked_signals quiet;
  for (uint32_t i = 0; i < helpers; ++i) {
    try {
      pool->threads_.emplace_back([self = pool.get()] { self->help(); });
    } catch (const std::system_error& e) {
      return failure{error_code::no_capacity,
                     "no thread for encode helper " + std::to_string(i) + ": " + e.what()};
    }
    const std::string name = "encode-" + std::to_string(i);
    pthread_setname_np(pool->threads_.back().native_handle(), name.c_str());
  }
  return pool;
}

encode_pool::~encode_pool() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  work_waits_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void encode_pool::run(size_t count, const std::function<void(size_t)>& work) {
  if (count == 0) return;
  batch own{work, count};
  std::unique_lock lock{mutex_};
  if (count > 1) {
    open_.push_back(&own);
    for (size_t i = 1; i < std::min(count, width()); ++i) work_waits_.notify_one();
  }
  while (own.next < own.count) do_next(own, lock);
  // What is left is under way in helpers, which always end.
  own.all_done.wait(lock, [&own] { return own.running == 0; });
}

void encode_pool::help() {
  std::unique_lock lock{mutex_};
  for (;;) {
    work_waits_.wait(lock, [this] { return stopping_ || !open_.empty(); });
    if (open_.empty()) return;
    batch& first = *open_.front();
    open_.pop_front();
    open_.push_back(&first);
    do_next(first, lock);
  }
}

void encode_pool::do_next(batch& from, std::unique_lock<std::mutex>& lock) {
  const size_t number = from.next++;
  ++from.running;
  if (from.next == from.count) std::erase(open_, &from);
  lock.unlock();
  from.work(number);
  lock.lock();
  // Under the lock: the caller cannot leave, and the batch with it, before this is through.
  if (--from.running == 0 && from.next == from.count) from.all_done.notify_one();
}

}  // namespace deepinfer
