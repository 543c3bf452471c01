#include "actors/node/stop_signals.hpp"

#include <pthread.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

namespace deepinfer {

struct stop_signals::state {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_started = false;
  bool asked = false;

  void ask() {
    const std::lock_guard lock{mutex};
    asked = true;
    changed.notify_all();
  }

  void take(int signal) {
    {
      const std::lock_guard lock{mutex};
      // Nothing to tidy up: locks on files and ports go with the process.
      if (!is_started || asked) ::_exit(128 + signal);
    }
    ask();
  }
};

stop_signals::stop_signals() : state_(std::make_shared<state>()) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // Lives as long as the process; holds what it needs by itself.
  std::thread{[shared = state_, signals] {
    for (int signal = 0; sigwait(&signals, &signal) == 0;) shared->take(signal);
  }}.detach();
}

void stop_signals::started() {
  const std::lock_guard lock{state_->mutex};
  state_->is_started = true;
}

void stop_signals::wait() {
  std::unique_lock lock{state_->mutex};
  state_->changed.wait(lock, [this] { return state_->asked; });
}

std::function<void()> stop_signals::asker() const {
  return [shared = state_] { shared->ask(); };
}

}  // namespace deepinfer
