#pragma once

#include "proto/types/result.hpp"

#include <cstdint>
#include <filesystem>
#include <string_view>

/// Small random checkpoints in the layout and the storage formats of the released model: for
/// tests, and for trying a build without a download. Text part only.
namespace deepinfer::model {

enum class random_shape : uint8_t {
  mini,    ///< 10 layers, every kind of layer of the release
  mini8,   ///< 8 layers, the smallest with all of encoder and decoder
  mini12,  ///< 12 layers with compress ratios 3, 2 and 1: finds hard-coded twos
};

/// "mini", "mini8", "mini12"; `invalid_argument` otherwise.
[[nodiscard]] result<random_shape> parse_random_shape(std::string_view name);

/// Writes config.json, engram_meta.json, two shards and their index into `folder`, which is made
/// when missing; files of these names are replaced. The same seed gives the same bytes everywhere.
[[nodiscard]] result<void> make_random_checkpoint(const std::filesystem::path& folder,
                                                  random_shape shape,
                                                  uint64_t seed);

}  // namespace deepinfer::model
