#pragma once

#include "runtime/base/config.hpp"

#include <chrono>
#include <cstdint>

namespace deepinfer {

/// Section `[kvwriter]`: engines' blocks on their way to the stores.
struct kv_writer_config {
  uint64_t queue_bytes = uint64_t{2} << 30;
  uint64_t staging_bytes = uint64_t{256} << 20;
  uint32_t puts_per_store = 4;
  std::chrono::milliseconds put_deadline{10000};
  std::chrono::milliseconds left_out{10000};
  std::chrono::milliseconds known_for{10000};

  template <class V>
  void describe(V& v) {
    v.bytes("queue_bytes", queue_bytes, between(1 << 20, int64_t{1} << 42),
            "Blocks that wait to be stored; when it is full, new ones are dropped (KV-21).");
    v.bytes("staging_bytes", staging_bytes, between(1 << 20, int64_t{1} << 40),
            "Registered memory from which stores read them.");
    v.field("puts_per_store", puts_per_store, between(1, 1024),
            "Writes that a store has not answered yet.");
    v.field("put_deadline", put_deadline, between(100, 600000), "Longest time for one write.");
    v.field("left_out", left_out, between(100, 3600000),
            "How long nothing is sent to a store that did not answer.");
    v.field(
        "known_for", known_for, between(0, 86400000),
        "How long blocks that were stored are not sent again; so long a store may miss one that it "
        "lost.");
  }
};

/// Section `[rings]`: window rings of conversations that may go on (KV-32).
struct ring_host_config {
  uint64_t bytes = uint64_t{256} << 20;
  uint32_t most = 16384;
  std::chrono::milliseconds idle{900000};
  std::chrono::milliseconds lease_ttl{30000};

  template <class V>
  void describe(V& v) {
    v.bytes("bytes", bytes, between(1 << 20, int64_t{1} << 40), "Memory for them, on each node.");
    v.field("most", most, between(1, 1 << 20), "Most sets of rings.");
    v.field("idle", idle, between(1000, 86400000), "Unused ones are let go after that time.");
    v.field("lease_ttl", lease_ttl, between(100, 600000),
            "How long rings stay in place for an engine that reads them.");
  }
};

}  // namespace deepinfer
