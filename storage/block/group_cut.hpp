#pragma once

#include <algorithm>
#include <cstdint>

namespace deepinfer::storage {

/// How the blocks of a sequence are cut into groups (`store_config::group_blocks`). The first
/// `shared_blocks` are a chain of their own (`shared_prefix`): depths and groups of those behind
/// begin anew, so that no group has blocks of two scopes, and stores never see where two chains
/// meet. Positions are those of blocks in the sequence.
struct group_cut {
  uint32_t group_blocks = 64;  ///< > 0
  uint32_t shared_blocks = 0;

  [[nodiscard]] uint32_t depth_of(uint32_t position) const {
    return position < shared_blocks ? position : position - shared_blocks;
  }
  [[nodiscard]] uint32_t group_of(uint32_t position) const {
    const uint32_t before = position < shared_blocks ? 0 : shared_groups();
    return before + depth_of(position) / group_blocks;
  }
  /// The position of a group's first block, and the one behind its last; 64 bits, since a sequence
  /// may end long before them.
  [[nodiscard]] uint64_t first_of(uint32_t group) const {
    const uint32_t shared = shared_groups();
    if (group < shared) return uint64_t{group} * group_blocks;
    return shared_blocks + uint64_t{group - shared} * group_blocks;
  }
  [[nodiscard]] uint64_t end_of(uint32_t group) const {
    const uint64_t end = first_of(group) + group_blocks;
    return group < shared_groups() ? std::min<uint64_t>(end, shared_blocks) : end;
  }

private:
  [[nodiscard]] uint32_t shared_groups() const {
    return shared_blocks / group_blocks + (shared_blocks % group_blocks == 0 ? 0 : 1);
  }
};

}  // namespace deepinfer::storage
