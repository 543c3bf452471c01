#pragma once

#include "storage/block/block_key.hpp"

#include <cstdint>
#include <span>
#include <vector>

/// Which stores own a group of blocks: weighted rendezvous hashing. Writers and readers compute it
/// each for themselves, so it is integer arithmetic alone: two machines never disagree because
/// their mathematical libraries do.
namespace deepinfer::policy {

/// A store as placement sees it.
struct store_site {
  uint64_t id_hi = 0;  ///< of the store's folder: the same after a restart
  uint64_t id_lo = 0;
  uint64_t weight = 1;  ///< its share is in proportion, e.g. capacity; 0: after all others
};

/// Positions in `sites` of those that own the group with this key (of its first block), best
/// first: `replicas` of them, or all when there are fewer. Does not depend on the order of `sites`.
/// When a site comes or goes, only groups that it wins or held change owners.
[[nodiscard]] std::vector<uint32_t> owners(const storage::block_key& group,
                                           std::span<const store_site> sites,
                                           uint32_t replicas);

/// Says what `owners` depends on: equal for those who see the same sites, in any order, with the
/// same weights. Never 0.
[[nodiscard]] uint64_t placement_digest(std::span<const store_site> sites, uint32_t replicas);

}  // namespace deepinfer::policy
