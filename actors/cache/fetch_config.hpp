#pragma once

#include "runtime/base/config.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace deepinfer {

/// Section `[kvfetch]`: from the stores into memory that the engines of a machine share.
struct fetch_config {
  std::string process = "separate";
  uint64_t arena_bytes = 0;
  uint32_t max_fetches = 4096;
  uint32_t max_blocks = 16384;
  uint32_t batch_blocks = 64;
  uint32_t reads_per_store = 4;
  uint32_t opens = 32;
  uint64_t reading_bytes = uint64_t{64} << 20;
  uint32_t io_threads = 4;
  bool direct_io = false;
  std::chrono::milliseconds open_timeout{1000};
  std::chrono::milliseconds read_timeout{5000};
  std::chrono::milliseconds hold{30000};
  std::chrono::milliseconds tell_use_every{600000};

  template <class V>
  void describe(V& v) {
    v.field("process", process, one_of({"separate", "inside"}),
            "Where blocks are fetched: in a process of its own, one on each machine, or inside "
            "every node that computes.");
    v.bytes(
        "arena_bytes", arena_bytes, between(0, int64_t{1} << 42),
        "Shared memory for blocks on their way to engines, touched as it is used; 0: a sixteenth "
        "of the machine, 16 MiB to 1 GiB.");
    v.field("max_fetches", max_fetches, between(1, 65536), "Hits fetched or held at a time.");
    v.field("max_blocks", max_blocks, between(1, 65536), "Blocks of one hit.");
    v.field("batch_blocks", batch_blocks, between(1, 256),
            "Blocks of one read; the first ones are of fewer.");
    v.field("reads_per_store", reads_per_store, between(1, 64), "Reads under way at one store.");
    v.field("opens", opens, between(1, 1024), "Groups being asked for at a time.");
    v.bytes("reading_bytes", reading_bytes, between(1 << 20, int64_t{1} << 40),
            "Bytes under way from all stores.");
    v.field("io_threads", io_threads, between(1, 64),
            "Threads that read files and verify; all but two at most read from one folder.");
    v.field("direct_io", direct_io, "Read files past the kernel's page cache.");
    v.field("open_timeout", open_timeout, between(1, 60000),
            "A store that does not say in this time what it has: the next one is asked.");
    v.field("read_timeout", read_timeout, between(1, 600000),
            "Blocks that do not come in this time: the next store is asked.");
    v.field("hold", hold, between(1, 600000),
            "How long after its deadline a hit is held for an engine that does not release it.");
    v.field("tell_use_every", tell_use_every, between(0, 86400000),
            "Blocks served from memory again and again: how often their store hears of it.");
  }
};

}  // namespace deepinfer
