#pragma once

#include "actors/bench/figure.hpp"
#include "proto/types/result.hpp"
#include "runtime/model/numeric_level.hpp"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace deepinfer::bench {

/// What `bench model` runs.
struct model_plan {
  std::filesystem::path small;  ///< checkpoint of the shape `small`; empty: made for the run
  std::filesystem::path shard;  ///< of the shape `flash-shard`; empty: left out
  model::numeric_level level = model::numeric_level::L1;
  uint32_t rounds = 5;
  uint32_t prompt_tokens = 2048;  ///< prefill
  uint32_t context_tokens = 256;  ///< before a decode step
  uint32_t decode_steps = 16;     ///< of one round
  std::vector<uint32_t> batches{1, 8, 32};
  uint32_t long_steps = 0;  ///< decode steps over which the resident size must stay flat; 0: none
};

/// Times of the model set beside what this machine allows, measured in the same rounds: the time to
/// read the stored weights of the step at the measured bandwidth, or to do its multiplications at
/// the measured FMA rate, whichever is longer.
[[nodiscard]] result<std::vector<figure>> measure_model_figures(const model_plan& plan);

}  // namespace deepinfer::bench
