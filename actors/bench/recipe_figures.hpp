#pragma once

#include "actors/bench/figure.hpp"
#include "proto/types/result.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace deepinfer::bench {

/// What `bench recipe` runs.
struct recipe_plan {
  std::filesystem::path tokenizer;  ///< tokenizer.json
  std::filesystem::path text;       ///< to encode; empty: a made-up mix
  size_t rounds = 9;
  size_t text_bytes = size_t{4} << 20;  ///< of the mix
  size_t messages = 200;                ///< of the conversation, a system message included
  size_t conversation_tokens = 77'000;  ///< about
  size_t outputs = 300;                 ///< distinct ones to parse
  size_t output_bytes = 4000;           ///< of each
};

/// From a client's bytes to ids and from ids to its events. Whatever one thread does is timed by
/// the processor time it got; two threads stand beside one of the same rounds by the wall clock.
[[nodiscard]] result<std::vector<figure>> measure_recipe_figures(const recipe_plan& plan);

}  // namespace deepinfer::bench
