#pragma once

#include "storage/block/block_record.hpp"

#include <cstdint>
#include <vector>

namespace deepinfer::storage {

/// Space that no record names any more.
struct freed_space {
  block_location location;
  uint32_t length = 0;
  scope_id scope{};  ///< whose bytes lie there until the file is rewritten
};

/// What an operation changed, for the journal: in the order of the lists, all or nothing.
struct catalogue_effects {
  std::vector<uint32_t> changed;   ///< entries whose records are to be written
  std::vector<block_key> erased;   ///< records to be erased
  std::vector<freed_space> freed;  ///< space of entries that are gone
};

}  // namespace deepinfer::storage
