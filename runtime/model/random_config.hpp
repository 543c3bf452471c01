#pragma once

#include "runtime/model/random_shape.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The JSON files of a random checkpoint.
namespace deepinfer::model {

/// config.json in the released layout; `parse_v41_config` gives the shape back.
[[nodiscard]] std::string config_text(const model_shape& shape);

/// Multipliers as the published recipe draws them for these layers.
[[nodiscard]] std::string engram_meta_text(const engram_config& config,
                                           const std::vector<uint64_t>& token_map);

/// model.safetensors.index.json: tensor -> shard.
struct tensor_place {
  std::string_view tensor;
  std::string_view shard;
};
[[nodiscard]] std::string index_text(std::span<const tensor_place> places, uint64_t total_bytes);

[[nodiscard]] std::string generation_config_text();

}  // namespace deepinfer::model
