#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace deepinfer::recipe {

/// What a client asked for besides the conversation, the same for every protocol.
struct generation_options {
  std::optional<uint32_t> max_tokens;
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<uint32_t> top_k;  ///< extension; 0 is off
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  bool ignore_eos = false;  ///< extension, for measurements: run to `max_tokens`
};

}  // namespace deepinfer::recipe
