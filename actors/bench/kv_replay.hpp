#pragma once

#include "actors/bench/figure.hpp"
#include "actors/bench/kv_trace.hpp"
#include "storage/block_store.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace deepinfer::bench {

struct replay_plan {
  std::vector<std::string> traces;  ///< files or folders
  std::string folder;               ///< where stores on disk are made, and removed
  enum class kind : uint8_t { memory, rocks } store = kind::memory;
  uint32_t stores = 4;  ///< compared with one
  uint64_t most_requests = 0;
};

/// Sends the prompts of traces, block by block, through one store and through several, with groups
/// of blocks placed as writers and readers of a cluster place them, and compares what is found with
/// what somebody would find who keeps everything. Keys, records, leases, checksums and the rules of
/// time are real; blocks are 64 bytes, and time is the trace's. Only prompts are stored: traces
/// have no numbers for what was generated.
[[nodiscard]] result<std::vector<figure>> replay_traces(const replay_plan& plan);

}  // namespace deepinfer::bench
