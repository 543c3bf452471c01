#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace deepinfer {

/// "12.3 of 510.3 GB, 1.20 GB/s, 6:55 left". `done` above zero.
[[nodiscard]] std::string progress_text(uint64_t done,
                                        uint64_t all,
                                        std::chrono::duration<double> elapsed);

/// A line on standard error that says how far a long work is: rewritten in place on a terminal,
/// a line of its own now and then elsewhere. Silent unless standard error is a terminal or the
/// user asked for it.
class progress_line {
public:
  enum class when : uint8_t { on_terminal, always };

  explicit progress_line(when shown);
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;
  /// Ends the line, so that what is printed next starts on a fresh one.
  ~progress_line();

  void update(uint64_t done, uint64_t all);

private:
  using clock = std::chrono::steady_clock;

  bool terminal_;
  bool shown_;
  bool open_ = false;
  clock::time_point start_;
  clock::time_point next_;
};

}  // namespace deepinfer
