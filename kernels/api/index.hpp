#pragma once

#include "kernels/api/paged.hpp"

#include <cstdint>

/// Sparse selection: score every entry, keep the best blocks (candidates), keep the best entries.
/// One order everywhere: higher score first, then lower index; -0 equals 0; NaN and -infinity are
/// never chosen.
namespace deepinfer::kernels {

/// Entries or blocks that may be kept of a longer list; of a list no longer than `keep` all are.
inline constexpr uint32_t most_kept = 1u << 16;

/// score[r][j] = sum_h weight[r][h] * scale * max(0, query[r][h] . key[j]) for j < visible[r], and
/// -infinity for the others up to `entries` and for those in a block whose mask byte is 0.
struct index_score_args {
  float* score;               // [rows][score_stride]
  const float* query;         // [rows][heads][width]
  const float* weight;        // [rows][heads]
  paged_rows keys;            // rows of `width`
  const uint32_t* visible;    // [rows], <= entries
  const uint8_t* block_mask;  // [rows][mask_stride], one byte per block, or null: all
  uint32_t rows;
  uint32_t heads;
  uint32_t width;
  uint32_t entries;
  uint32_t score_stride;
  uint32_t mask_stride;
  uint32_t block_size;
  float scale;
};

/// Independent scorings as one unit of work.
struct index_score_batch_args {
  const index_score_args* items;
  uint32_t count;
};

/// mask[r][b] = 1 for the `keep` best blocks of `block_size` entries. A block's score is the
/// highest of its entries; the block of the newest visible entry always wins; blocks with nothing
/// visible are dropped.
struct select_blocks_args {
  uint8_t* mask;            // [rows][mask_stride]
  const float* score;       // [rows][score_stride]
  const uint32_t* visible;  // [rows]
  uint32_t rows;
  uint32_t entries;
  uint32_t score_stride;
  uint32_t mask_stride;  // >= blocks = ceil(entries / block_size)
  uint32_t block_size;
  uint32_t keep;
};

/// index[r] = the `keep` best entries in ascending order, count[r] of them.
struct select_top_args {
  int32_t* index;      // [rows][keep]
  uint32_t* count;     // [rows]
  const float* score;  // [rows][score_stride]
  uint32_t rows;
  uint32_t entries;
  uint32_t score_stride;
  uint32_t keep;
};

}  // namespace deepinfer::kernels
