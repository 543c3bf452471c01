#pragma once

#include "proto/types/result.hpp"
#include "storage/block/block_record.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace deepinfer::bench {

/// A request of a trace: its prompt as numbers, one for every `unit_tokens` of it. Equal leading
/// numbers in one space are an equal prefix.
struct trace_request {
  std::chrono::milliseconds at{};
  uint32_t space = 0;
  uint64_t tokens = 0;
  std::vector<uint32_t> units;  ///< the last one may be a part
};

struct request_trace {
  std::string name;
  uint32_t unit_tokens = 0;
  storage::traffic_class use = storage::traffic_class::chat;
  std::vector<trace_request> requests;  ///< in the order of time
};

/// Reads JSON lines, also packed with zstd (by the program of that name). Two forms are known:
/// requests as Mooncake published them (one trace a file), and coding sessions of kv-cache-tester
/// (all files together one trace, all sessions starting at one time). A folder stands for its
/// files. `most_requests` of each trace are kept; 0: all.
[[nodiscard]] result<std::vector<request_trace>> read_traces(const std::vector<std::string>& paths,
                                                             uint64_t most_requests);

/// Tokens of each prompt that somebody who keeps everything for ever has seen before.
[[nodiscard]] std::vector<uint64_t> seen_before(const request_trace& trace);

}  // namespace deepinfer::bench
