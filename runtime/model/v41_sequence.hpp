#pragma once

#include "kernels/api/paged.hpp"
#include "proto/types/result.hpp"
#include "runtime/model/numeric_level.hpp"
#include "runtime/model/prefix_restore.hpp"
#include "runtime/model/step_model.hpp"
#include "runtime/model/swap_landing.hpp"
#include "runtime/model/v41_config.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

/// What one sequence remembers between steps: section 8 of the model's specification, in the
/// packed row formats (fp32 at level L0, which has no cache quantisers).
namespace deepinfer::model {

/// Tokens of one block. A block holds the entries that its tokens complete, so it depends on the
/// prefix up to its end alone, for every compress ratio.
inline constexpr uint32_t block_tokens = 128;
/// Slots a ring has beyond the window: a verify step may write that many rows and take them back.
inline constexpr uint32_t ring_slack = 6;

struct state_formats {
  kernels::row_format window;
  kernels::row_format entry;
  kernels::row_format index_key;
};
[[nodiscard]] state_formats formats_of(numeric_level level);

/// Rows of `row_bytes` that only grow and are cut at the end, in pages that never move.
class row_pages {
public:
  static constexpr uint32_t page_rows = 128;
  using page = std::shared_ptr<uint8_t[]>;

  row_pages(kernels::row_format format, uint32_t width)
      : format_(format), row_bytes_(kernels::packed_row_bytes(format, width)) {}
  row_pages(row_pages&&) = default;  // a copy would share its rows
  row_pages& operator=(row_pages&&) = default;

  /// A new row behind the last, to be filled by the caller.
  uint8_t* add();
  /// `rows` rows behind the last, whose contents come through `pages`.
  void grow(uint32_t rows);
  void truncate(uint32_t rows);
  /// Zeros in place of the rows, and none of the pages that somebody else may still write.
  void blank();
  /// Copies rows [first, last) behind each other to `to`.
  void copy_out(uint32_t first, uint32_t last, std::byte* to) const;
  [[nodiscard]] const uint8_t* row(uint32_t i) const {
    return view_[i / page_rows] + size_t{i % page_rows} * row_bytes_;
  }
  [[nodiscard]] uint32_t size() const { return rows_; }
  [[nodiscard]] size_t row_bytes() const { return row_bytes_; }
  [[nodiscard]] uint64_t bytes() const { return page_rows * row_bytes_ * pages_.size(); }
  [[nodiscard]] kernels::paged_rows view() const { return {view_.data(), page_rows, format_}; }
  [[nodiscard]] const std::vector<page>& pages() const { return pages_; }

private:
  kernels::row_format format_;
  size_t row_bytes_;
  uint32_t rows_ = 0;
  std::vector<page> pages_;
  std::vector<const uint8_t*> view_;
};

/// Keys of the last positions: position p lies in slot p mod slots, and the tag says which it is.
class window_ring {
public:
  window_ring(size_t row_bytes, uint32_t slots)
      : row_bytes_(row_bytes), rows_(row_bytes * slots), tag_(slots, -1) {}

  void write(uint32_t position, const uint8_t* row);
  /// Null when the position is not held (any more).
  [[nodiscard]] const uint8_t* at(uint32_t position) const;
  /// First of the positions before `end` that are held without a gap, looking back at most `most`.
  [[nodiscard]] uint32_t held_from(uint32_t end, uint32_t most) const;
  /// Forgets positions >= `end`.
  void drop_from(uint32_t end);
  [[nodiscard]] uint32_t slots() const { return static_cast<uint32_t>(tag_.size()); }
  [[nodiscard]] size_t row_bytes() const { return row_bytes_; }
  [[nodiscard]] uint64_t bytes() const { return rows_.size() + tag_.size() * sizeof(int64_t); }

private:
  size_t row_bytes_;
  std::vector<uint8_t> rows_;
  std::vector<int64_t> tag_;  ///< position held by the slot; -1: none
};

/// Global state of one layer that makes compressed entries.
struct kv_source_state {
  uint32_t ratio;
  row_pages entries;
  row_pages index_keys;
  /// (value, gate) rows in fp32 of the latest tokens, the last one that of position computed - 1:
  /// the open group's, and up to `ring_slack` more so that a roll-back finds its group again.
  std::vector<float> pending;
};

class v41_sequence final : public sequence {
public:
  v41_sequence(const v41_config& config, numeric_level level);

  [[nodiscard]] uint32_t computed_tokens() const override { return computed; }
  [[nodiscard]] uint64_t state_bytes() const override;

  /// Forgets the tokens at positions >= `tokens`: at most `ring_slack` of them, of the latest step.
  void roll_back(uint32_t tokens);

  /// In front of the layer of KV source `number`: waits for the entries of a prefix hit. False for
  /// good when they do not come: what is computed from then on is of no use to anybody.
  [[nodiscard]] bool await_entries(uint32_t number, swap_patience& patience);
  /// Whether all entries are in; whether it is known that some will not come.
  [[nodiscard]] bool arrived() const { return !lost && (!landing || landing->gate.all_open()); }
  [[nodiscard]] bool missing() const { return lost || (landing && landing->gate.given_up()); }

  uint32_t computed = 0;
  std::shared_ptr<swap_landing> landing;  ///< of entries on their way; null: all are here
  bool lost = false;                      ///< those entries did not come
  replay_cone cone;                       ///< of an exact restore
  std::vector<window_ring> rings;         ///< one per layer
  std::vector<kv_source_state> sources;   ///< one per KV source
  std::vector<window_ring> draft_rings;   ///< one per drafter stage: rows of committed positions
  /// Compressed ids of the latest tokens, the latest first; -1: an image's, or before the start.
  /// Holds `ring_slack` more than the look-back.
  std::vector<int64_t> look_back;

private:
  uint32_t head_width_;
};

/// Bytes a sequence needs for each token and once, at this layout. For the released configuration
/// and levels L1 and L2: 890 a token, that is 113,920 per block of 128.
[[nodiscard]] uint64_t state_bytes_per_token(const v41_config& config, numeric_level level);
[[nodiscard]] uint64_t state_bytes_fixed(const v41_config& config, numeric_level level);
/// Bytes of block `number` (they differ only where 128 is no multiple of a ratio).
[[nodiscard]] uint64_t block_bytes(const v41_config& config, numeric_level level, uint32_t number);

/// Blocks [first, last).
struct block_range {
  uint32_t first;
  uint32_t last;
};

/// Version of the exported bytes below; part of every layout fingerprint.
inline constexpr uint32_t state_version = 2;

/// Parts of an exported sequence of n tokens (rows in the formats of the level, little-endian):
///   block i     for each KV source: the entries and then the index keys that tokens
///               128 i .. 128 i + 127 complete
///   block_tail  the same for the tokens behind the last full block; absent when empty
///   ring 0      for each layer: first held position f (u32), then the rows of positions f .. n-1,
///               at most a window of them; absent when n = 0
///   ring 1      the same for each drafter stage; absent when none holds a row
///   state 0     state_version, tokens, layout, look-back ids, the open group's rows of each source
[[nodiscard]] std::vector<state_part> export_sequence(const v41_sequence& from,
                                                      const v41_config& config,
                                                      uint64_t layout);

/// What an import must agree with.
struct import_target {
  const v41_config& config;
  numeric_level level;
  uint64_t layout;
  uint32_t tokens;
  std::vector<int64_t> look_back;  ///< of those tokens, the latest first; -1: an image token
};

/// The inverse. Refuses parts of another layout, missing, doubled or of the wrong size
/// (`invalid_argument`), and look-back ids that are not `look_back` (`corrupt`): those belong to
/// other tokens.
[[nodiscard]] result<std::unique_ptr<v41_sequence>> import_sequence(
    std::span<const state_part> parts, const import_target& target);

/// Full blocks [first, last), of a sequence that has computed them.
[[nodiscard]] std::vector<state_part> export_blocks(const v41_sequence& from, block_range blocks);

/// What is not blocks, of a sequence that stands behind a block.
[[nodiscard]] std::vector<state_part> export_rings(const v41_sequence& from,
                                                   const v41_config& config,
                                                   uint64_t layout);

/// What a prefix hit of `target.tokens` leaves: a sequence whose entries come through `loading`,
/// with everything else empty and `computed` at `start` <= hit. The caller computes positions from
/// `start` on; rows before the hit's end write no entries.
[[nodiscard]] restored_sequence adopt_prefix(const import_target& target, uint32_t start);

/// The same with rings and open groups, standing behind the hit. Refuses `rings` as
/// `import_sequence` does.
[[nodiscard]] result<restored_sequence> adopt_prefix_with_rings(std::span<const state_part> rings,
                                                                const import_target& target);

}  // namespace deepinfer::model
