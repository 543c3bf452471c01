#pragma once

#include "proto/types/result.hpp"
#include "runtime/model/safetensors.hpp"
#include "runtime/model/v41_config.hpp"
#include "runtime/model/vision_config.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// What a checkpoint of a configuration must hold, from the configuration alone.
namespace deepinfer::model {

/// Who owns a tensor, as the released checkpoint's totals are published.
enum class tensor_group : uint8_t {
  encoder,  ///< layers before the last KV source, without Engram
  decoder,
  embedding,
  head,  ///< with the final norm
  engram_projections,
  engram_tables,  ///< read row by row, never as a whole
  drafter,
  vision,  ///< with aligner and delimiters
};
inline constexpr size_t tensor_groups = 8;

struct table_entry {
  std::string name;
  tensor_type type = tensor_type::u8;
  std::vector<uint64_t> shape;
  tensor_group group = tensor_group::encoder;

  [[nodiscard]] uint64_t elements() const;
  [[nodiscard]] uint64_t bytes() const { return elements() * element_bytes(type); }
};

/// "BF16 [192, 64]"
[[nodiscard]] std::string to_string(const table_entry& entry);

/// Most tensors a table may have: ten times the release.
inline constexpr uint64_t most_table_tensors = uint64_t{1} << 20;

/// All tensors of a configuration, sorted by name. Without a vision configuration there are no
/// vision, aligner and delimiter tensors. `too_large` over `most_table_tensors`.
[[nodiscard]] result<std::vector<table_entry>> make_tensor_table(
    const v41_config& config, const std::optional<vision_config>& vision);

/// Null when there is none of that name.
[[nodiscard]] const table_entry* find_entry(std::span<const table_entry> table,
                                            std::string_view name);

struct group_total {
  uint64_t tensors = 0;
  uint64_t bytes = 0;

  bool operator==(const group_total&) const = default;
};
using group_totals = std::array<group_total, tensor_groups>;

[[nodiscard]] group_totals totals_of(std::span<const table_entry> table);
[[nodiscard]] group_total sum_of(const group_totals& totals);

/// For people: "layers 0-19 without Engram", "embed", ...
[[nodiscard]] std::string group_name(tensor_group group, const v41_config& config);

}  // namespace deepinfer::model
