#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

struct io_uring;

namespace deepinfer::storage {

/// One vectored read or write of a descriptor; what the kernel answered.
struct ring_operation {
  enum class kind : uint8_t { read, write };
  kind what = kind::read;
  int descriptor = -1;
  uint64_t offset = 0;
  iovec parts[2] = {};
  uint32_t part_count = 0;
  int64_t answer = 0;  ///< bytes, or a negative errno
};

/// A few io_urings, each used by one caller at a time. The only place that knows liburing.
class ring_pool {
public:
  ring_pool(uint32_t rings, uint32_t queue_depth);
  ~ring_pool();

  /// False: no ring is free, or the kernel gives none; the caller does it otherwise.
  [[nodiscard]] bool run(std::span<ring_operation> operations);
  /// The kernel gave a ring.
  [[nodiscard]] bool usable();

private:
  struct free_ring {
    void operator()(io_uring* ring) const;
  };
  using ring = std::unique_ptr<io_uring, free_ring>;

  ring take();
  void give(ring used);

  const uint32_t depth_;
  std::mutex mutex_;
  std::vector<ring> idle_;
  uint32_t left_;  // rings that may still be made
};

}  // namespace deepinfer::storage
