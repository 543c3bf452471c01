#pragma once

#include "kernels/api/paged.hpp"
#include "proto/types/result.hpp"
#include "runtime/model/step_model.hpp"
#include "runtime/model/v41_config.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

/// What one sequence remembers between steps.
namespace deepinfer::model {

/// Tokens of one exported block. A block holds the entries that its tokens complete, so it depends
/// on the prefix up to its end alone, for every compress ratio.
inline constexpr uint32_t block_tokens = 128;
/// Slots a ring has beyond the window: a verify step may write that many rows and take them back.
inline constexpr uint32_t ring_slack = 6;

/// fp32 rows that only grow, in pages that never move.
class row_pages {
public:
  static constexpr uint32_t page_rows = 128;

  explicit row_pages(uint32_t width) : width_(width) {}

  /// A new row behind the last, to be filled by the caller.
  float* add();
  [[nodiscard]] const float* row(uint32_t i) const {
    return view_[i / page_rows] + size_t{i % page_rows} * width_;
  }
  [[nodiscard]] uint32_t size() const { return rows_; }
  [[nodiscard]] uint32_t width() const { return width_; }
  [[nodiscard]] uint64_t bytes() const {
    return sizeof(float) * page_rows * width_ * pages_.size();
  }
  [[nodiscard]] kernels::paged_rows view() const { return {view_.data(), page_rows}; }

private:
  uint32_t width_;
  uint32_t rows_ = 0;
  std::vector<std::unique_ptr<float[]>> pages_;
  std::vector<const float*> view_;
};

/// Keys of the last positions: position p lies in slot p mod slots, and the tag says which it is.
class window_ring {
public:
  window_ring(uint32_t width, uint32_t slots)
      : width_(width), rows_(size_t{width} * slots), tag_(slots, -1) {}

  void write(uint32_t position, const float* row);
  /// Null when the position is not held (any more).
  [[nodiscard]] const float* at(uint32_t position) const;
  [[nodiscard]] uint32_t slots() const { return static_cast<uint32_t>(tag_.size()); }
  [[nodiscard]] uint64_t bytes() const {
    return rows_.size() * sizeof(float) + tag_.size() * sizeof(int64_t);
  }

private:
  uint32_t width_;
  std::vector<float> rows_;
  std::vector<int64_t> tag_;  ///< position held by the slot; -1: none
};

/// Global state of one layer that makes compressed entries.
struct kv_source_state {
  uint32_t ratio;
  row_pages entries;
  row_pages index_keys;
  /// (value, gate) of the tokens behind the last complete group, `computed mod ratio` of them.
  std::vector<float> pending;
};

class v41_sequence final : public sequence {
public:
  explicit v41_sequence(const v41_config& config);

  [[nodiscard]] uint32_t computed_tokens() const override { return computed; }
  [[nodiscard]] uint64_t state_bytes() const override;

  uint32_t computed = 0;
  std::vector<window_ring> rings;        ///< one per layer
  std::vector<kv_source_state> sources;  ///< one per KV source
  std::vector<int64_t> look_back;        ///< compressed ids, the latest first; -1: before the start
};

/// Bytes a sequence needs for each token and once, at this layout.
[[nodiscard]] uint64_t state_bytes_per_token(const v41_config& config);
[[nodiscard]] uint64_t state_bytes_fixed(const v41_config& config);

/// Version of the exported bytes below; part of every layout fingerprint.
inline constexpr uint32_t state_version = 1;

/// Parts of an exported sequence of n tokens (fp32, little-endian):
///   block i     for each KV source: the entries and then the index keys that tokens
///               128 i .. 128 i + 127 complete
///   block_tail  the same for the tokens behind the last full block; absent when empty
///   ring 0      for each layer: the rows of the last min(n, window + 6) positions, oldest first;
///               absent when n = 0
///   state 0     state_version, tokens, layout, look-back ids, pending rows of each source
[[nodiscard]] std::vector<state_part> export_sequence(const v41_sequence& from,
                                                      const v41_config& config,
                                                      uint64_t layout);

/// The inverse. Refuses parts of another layout, missing, doubled or of the wrong size
/// (`invalid_argument`), and look-back ids that are not `look_back` (`corrupt`): those belong to
/// other tokens.
[[nodiscard]] result<std::unique_ptr<v41_sequence>> import_sequence(
    std::span<const state_part> parts,
    const v41_config& config,
    uint64_t layout,
    uint32_t tokens,
    const std::vector<int64_t>& look_back);

}  // namespace deepinfer::model
