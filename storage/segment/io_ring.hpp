#pragma once

#include "proto/types/result.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

struct io_uring;

namespace deepinfer::storage {

/// One read or write of a descriptor. The bytes belong to the kernel until it answers.
struct ring_request {
  enum class kind : uint8_t { read, write };
  kind what = kind::read;
  int descriptor = -1;
  uint64_t offset = 0;
  std::span<std::byte> bytes;
  uint32_t tag = 0;  ///< comes back with the answer
};

struct ring_answer {
  uint32_t tag = 0;
  int64_t result = 0;  ///< bytes, or a negative errno
};

/// One io_uring, for one thread at a time. The only place that knows liburing.
class io_ring {
public:
  /// Null: an old kernel, or a container that forbids it.
  [[nodiscard]] static std::unique_ptr<io_ring> make(uint32_t depth);

  /// At most as many as its depth at once.
  void push(const ring_request& request);
  /// The kernel begins with what was pushed. False: it refuses, or later; `wait` tries again.
  [[nodiscard]] bool submit();
  /// What has been answered, without waiting.
  void reap(std::vector<ring_answer>& answers);
  /// Submits what was pushed and waits for an answer: `deadline_exceeded` if none comes in time,
  /// `unreachable` if the kernel refuses.
  result<void> wait(std::chrono::milliseconds patience, std::vector<ring_answer>& answers);
  /// Pushed and not answered.
  [[nodiscard]] uint32_t in_flight() const { return in_flight_; }

private:
  struct free_ring {
    void operator()(io_uring* ring) const;
  };
  explicit io_ring(std::unique_ptr<io_uring, free_ring> ring) : ring_(std::move(ring)) {}

  std::unique_ptr<io_uring, free_ring> ring_;
  uint32_t in_flight_ = 0;
};

}  // namespace deepinfer::storage
