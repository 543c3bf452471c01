#pragma once

#include "actors/node/fetch_keeper.hpp"
#include "proto/types/result.hpp"

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

/// The process that fetches KV blocks for the engines of this machine: `deepinfer kvfetch`, started
/// by one node of each cluster. A socket is its standard input: it ends when the other end is
/// closed, so with its parent, however that ends. What it says there is whether it came up.
namespace deepinfer {

/// Equal for processes that can open one another's descriptors: of one boot and one process table.
[[nodiscard]] std::string machine_mark();

/// The right to start that process; goes with the process that has it.
class fetch_right {
public:
  fetch_right() = default;
  ~fetch_right();
  fetch_right(const fetch_right&) = delete;
  fetch_right& operator=(const fetch_right&) = delete;

  /// True when this process has it now. `cluster_folder` is private to the user and the cluster;
  /// containers that share it have machines of their own.
  bool take(const std::string& cluster_folder, const std::string& machine);

private:
  int lock_ = -1;
};

/// The child. Ended at the end of its scope: asked first, killed after two seconds.
class fetch_child {
public:
  fetch_child() = default;
  ~fetch_child() { stop(); }
  fetch_child(const fetch_child&) = delete;
  fetch_child& operator=(const fetch_child&) = delete;

  /// One that still runs is killed. Waits for nothing that the child does.
  result<void> start(const std::string& settings);
  /// How it ended; nothing while it runs. Does not wait.
  [[nodiscard]] std::optional<fetch_end> ended();
  void stop();
  [[nodiscard]] pid_t process() const { return pid_; }

private:
  void kill_now();
  void hear();

  pid_t pid_ = -1;
  int line_ = -1;      // to its standard input
  std::string heard_;  // from there
  std::chrono::steady_clock::time_point started_{};
};

/// The child's side, before anything else runs in it.
struct fetch_parent {
  /// What `fetch_child::start` was given; empty when nobody gave any.
  static std::string settings();
  static void say_up();
  static void say_failed(const failure& why);
  /// Returns when the parent is gone.
  static void wait_gone();
};

}  // namespace deepinfer
