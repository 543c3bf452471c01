#pragma once

#include "runtime/model/random_checkpoint.hpp"
#include "runtime/model/v41_config.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// The JSON files of a random checkpoint.
namespace deepinfer::model {

[[nodiscard]] std::string random_config_text(random_shape shape);

/// Multipliers as the published recipe draws them for these layers.
[[nodiscard]] std::string engram_meta_text(const engram_config& config,
                                           const std::vector<uint64_t>& token_map);

/// model.safetensors.index.json: tensor -> shard.
[[nodiscard]] std::string index_text(
    const std::vector<std::pair<std::string, const char*>>& places);

}  // namespace deepinfer::model
