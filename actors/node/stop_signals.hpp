#pragma once

#include <functional>
#include <memory>

namespace deepinfer {

/// Takes SIGINT, SIGTERM and SIGHUP for the whole process, on a thread of its own. While the node
/// is being started a signal ends the process at once (exit code 128 + number), so that a long load
/// can be interrupted; afterwards the first one asks for an orderly stop and the next one does not
/// wait for it. Make it before any other thread, so that all inherit the blocked signals.
class stop_signals {
public:
  stop_signals();

  /// From now on a signal asks for an orderly stop.
  void started();
  /// Until somebody asks for a stop.
  void wait();
  /// Asks for a stop from within; any thread.
  [[nodiscard]] std::function<void()> asker() const;

private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace deepinfer
