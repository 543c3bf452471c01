#pragma once

#include "storage/block/block_record.hpp"

#include <cstdint>
#include <vector>

/// What a store tells of whole groups: the part of a chain, or tree of chains, between two places
/// where a chain may begin (`store_config::group_blocks`). For whoever moves them elsewhere.
namespace deepinfer::storage {

struct head_page {
  std::vector<block_key> heads;  ///< of groups that are stored here
  uint64_t next_cursor = 0;      ///< 0: this was the last page
};

enum class tree_order : uint8_t {
  parents_first,   ///< each chain in one piece
  children_first,  ///< those that may be removed, in that order
};

struct group_query {
  block_key head;
  tree_order order = tree_order::parents_first;
  block_key after;  ///< of `parents_first`: the last block of the page before; zero: from the head
  size_t limit = 0;
};

struct group_block {
  block_record record;
  block_content content;  ///< empty: lost or damaged
};

}  // namespace deepinfer::storage
