#pragma once

#include "proto/types/result.hpp"

#include <sys/types.h>

#include <string>

/// The process that fetches KV blocks for the engines of this machine: `deepinfer kvfetch`, started
/// by one node of each cluster. It reads its settings from its standard input, up to a zero byte,
/// and ends when that pipe does: with its parent, however that ends.
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

  /// True when this process has it now. `cluster_folder` is private to the user and the cluster.
  bool take(const std::string& cluster_folder);

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

  result<void> start(const std::string& settings);
  /// Looks whether it has ended, without waiting.
  [[nodiscard]] bool running();
  void stop();
  [[nodiscard]] pid_t process() const { return pid_; }

private:
  pid_t pid_ = -1;
  int pipe_ = -1;
};

}  // namespace deepinfer
