#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace deepinfer::recipe {

/// A grammar that the visible answer must follow, as the client wrote it; what enforces it is not
/// this room.
struct output_constraint {
  enum class kind : uint8_t {
    none,
    json_schema,  ///< `text` is the schema, spaced JSON
    regex         ///< `text` is the expression
  };

  kind what = kind::none;
  std::string name;  ///< of the schema, if it has one
  std::string text;
  std::string field;  ///< of the request, by path, which asks for it
};

/// What a client asked for besides the conversation, the same for every protocol.
struct generation_options {
  std::optional<uint32_t> max_tokens;
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<uint32_t> top_k;  ///< extension; 0 is off
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  uint32_t choices = 1;              ///< independent answers to the same prompt (`n`)
  std::optional<uint32_t> logprobs;  ///< tell probabilities, with that many alternatives
  output_constraint constraint;
  bool disable_parallel_tool_use = false;  ///< carried; the published service ignores it
  bool ignore_eos = false;                 ///< extension, for measurements: run to `max_tokens`
};

}  // namespace deepinfer::recipe
