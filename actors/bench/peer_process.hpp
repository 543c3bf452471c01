#pragma once

#include "proto/types/result.hpp"

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace deepinfer::bench {

/// Path of the running program, to start it again as the other side of a measurement.
[[nodiscard]] std::string own_program();

/// Another process with its standard input and output (and on request its standard error) on
/// pipes. Ended with its object.
class peer_process {
public:
  enum class errors { ours, piped };

  peer_process() = default;
  ~peer_process();
  peer_process(const peer_process&) = delete;
  peer_process& operator=(const peer_process&) = delete;

  result<void> start(const std::vector<std::string>& command, errors where = errors::ours);

  /// The next line it writes; with `errors::piped` of its log instead. `deadline_exceeded`, or
  /// `unreachable` at its end.
  result<std::string> line(std::chrono::milliseconds patience);
  /// Sends it a line.
  void say(const std::string& text);
  /// Asks it to end (TERM), waits for that, kills it in the end.
  void end(std::chrono::milliseconds patience);

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Memory in use now (resident), in bytes.
  [[nodiscard]] double resident_bytes() const;
  /// Seconds computed so far by all of its threads.
  [[nodiscard]] double cpu_seconds() const;

private:
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
  std::string unread_;
};

}  // namespace deepinfer::bench
