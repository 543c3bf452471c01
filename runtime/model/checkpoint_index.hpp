#pragma once

#include "proto/types/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// model.safetensors.index.json: which shard holds which tensor.
namespace deepinfer::model {

inline constexpr std::string_view index_file_name = "model.safetensors.index.json";
inline constexpr std::string_view single_file_name = "model.safetensors";

struct index_entry {
  std::string tensor;
  std::string shard;  ///< a plain file name
};

struct checkpoint_index {
  std::vector<index_entry> entries;  ///< sorted by tensor, each once
  std::optional<uint64_t> total_bytes;

  /// Sorted, each once.
  [[nodiscard]] std::vector<std::string> shards() const;
  /// Null when the index does not list it.
  [[nodiscard]] const index_entry* find(std::string_view tensor) const;
};

/// `corrupt` when it is no index, names a shard by a path or a tensor twice; `too_large` over the
/// limits of a checkpoint.
[[nodiscard]] result<checkpoint_index> parse_checkpoint_index(std::string_view text);

}  // namespace deepinfer::model
