#pragma once

#include "runtime/base/config.hpp"

#include <chrono>
#include <cstdint>

namespace deepinfer {

/// Section `[kvmove]`: stored blocks on their way to the stores that own them.
struct kv_mover_config {
  bool enabled = true;
  std::chrono::milliseconds settle{30'000};
  std::chrono::milliseconds gone_after{600'000};
  std::chrono::milliseconds strays_every{600'000};
  std::chrono::milliseconds copies_every = std::chrono::hours{1};
  std::chrono::milliseconds linger{30'000};
  std::chrono::milliseconds left_out{10'000};
  std::chrono::milliseconds put_deadline{10'000};
  uint64_t bytes_per_second = uint64_t{64} << 20;
  uint64_t staging_bytes = uint64_t{64} << 20;
  uint64_t put_bytes = uint64_t{16} << 20;
  uint32_t batch_blocks = 256;

  template <class V>
  void describe(V& v) {
    v.field("enabled", enabled,
            "Move stored blocks to the stores that own them, and make lost copies again.");
    v.field("settle", settle, between(0, 86400000),
            "Nothing moves before the stores have been the same for so long.");
    v.field(
        "gone_after", gone_after, between(0, 604800000),
        "A store that is gone keeps its place for so long, so that a restart moves nothing; then "
        "others take its blocks over. Also how long a store waits after its own start.");
    v.field("strays_every", strays_every, between(100, 604800000),
            "Pause between two searches for blocks that lie where they do not belong.");
    v.field("copies_every", copies_every, between(100, 604800000),
            "Pause between two searches for lost copies while no store comes or goes.");
    v.field("linger", linger, between(0, 3600000),
            "How long blocks stay where they were after their owners have them, for readers that "
            "were told of the old place.");
    v.field("left_out", left_out, between(100, 600000),
            "How long nothing is sent to a store that failed; up to ten minutes when it goes on.");
    v.field("put_deadline", put_deadline, between(100, 600000),
            "Longest time for one question or write to another store.");
    v.bytes("bytes_per_second", bytes_per_second, between(1 << 10, int64_t{1} << 40),
            "Most bytes that one store sends to others, in the mean.");
    v.bytes("staging_bytes", staging_bytes, between(1 << 20, int64_t{1} << 40),
            "Registered memory from which other stores read them.");
    v.bytes("put_bytes", put_bytes, between(1 << 10, int64_t{1} << 40),
            "Most bytes in one write, and on their way at once.");
    v.field("batch_blocks", batch_blocks, between(1, 4096),
            "Most blocks of a group that are looked at together.");
  }
};

}  // namespace deepinfer
