#pragma once

#include "proto/types/result.hpp"
#include "runtime/model/mapped_file.hpp"
#include "runtime/model/safetensors.hpp"

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::model {

/// Bounds of a checkpoint folder.
namespace checkpoint_limits {
inline constexpr size_t config_bytes = size_t{1} << 20;
inline constexpr size_t index_bytes = size_t{64} << 20;
inline constexpr size_t side_file_bytes = size_t{64} << 20;
inline constexpr size_t shards = 4096;
}  // namespace checkpoint_limits

/// A folder in the Hugging Face layout: `config.json` and either `model.safetensors` or the shards
/// that `model.safetensors.index.json` lists. Shards stay mapped; tensors are views into them.
class checkpoint {
public:
  [[nodiscard]] static result<checkpoint> open(const std::filesystem::path& folder);

  /// The folder's own name, which is the served name unless the operator gives another.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const std::string& config_text() const { return config_text_; }

  /// All tensors of all shards, sorted by name.
  [[nodiscard]] std::span<const tensor_view> tensors() const { return tensors_; }
  [[nodiscard]] uint64_t tensor_bytes() const;
  /// Null when there is none of that name.
  [[nodiscard]] const tensor_view* find(std::string_view tensor) const;
  /// `not_found` when missing, `corrupt` when type or shape are others.
  [[nodiscard]] result<const tensor_view*> need(std::string_view tensor,
                                                tensor_type type,
                                                std::initializer_list<uint64_t> shape) const;

private:
  checkpoint() = default;
  [[nodiscard]] result<void> add_shard(const std::string& file);

  std::filesystem::path folder_;
  std::string name_;
  std::string config_text_;
  std::vector<mapped_file> shards_;
  std::vector<tensor_view> tensors_;
};

}  // namespace deepinfer::model
