#pragma once

#include "actors/cache/kv_wire.hpp"

#include <memory>
#include <vector>

/// A `KvPut` from its message to its outcomes, without actors: what is read from it, and the calls
/// of the store that it takes, each in one piece of work.
namespace deepinfer {

struct put_limits {
  size_t max_blocks = 4096;
  uint64_t max_bytes = 0;     ///< of all blocks together
  uint32_t group_blocks = 0;  ///< as of the store; 0: it has no groups
};

/// Where the bytes of one block are pulled from, and what they must be.
struct put_source {
  uint64_t region = 0;
  uint64_t offset = 0;
  uint64_t digest_hi = 0;
  uint64_t digest_lo = 0;
  uint64_t checksum = 0;
};

struct put_work {
  wire::msg<wire::KvPut> message;  ///< what `items` look into
  storage::write_context context;
  node_id source_node;
  std::vector<storage::reserve_item> items;
  std::vector<put_source> sources;
  std::vector<storage::reservation> reserved;  ///< empty while nothing is reserved
  std::vector<std::vector<std::byte>> bytes;   ///< of granted ones, as long as they are
  std::vector<result<void>> pulls;
  std::vector<wire::KvPutOutcome> outcomes;
  result<void> refusal;   ///< the store refused all of it
  bool relieved = false;  ///< room was made for it once

  [[nodiscard]] bool granted(size_t i) const {
    return reserved[i].outcome == storage::reserve_outcome::granted;
  }
  [[nodiscard]] uint64_t granted_bytes() const;
  [[nodiscard]] bool found_full() const;
};

/// `invalid_argument` or `too_large` for what no store would take, as blocks that are not of one
/// chain and one group, parents first: a group is placed as a whole, so the rest is not this
/// store's.
[[nodiscard]] result<std::shared_ptr<put_work>> read_put(const wire::msg<wire::KvPut>& message,
                                                         const put_limits& limits);

/// Reserves; afterwards `outcomes` say what is refused already.
void reserve_put(storage::block_store& store, put_work& work);
/// The store had no room for some of it (`found_full`): makes some, and reserves those again.
void relieve_put(storage::block_store& store, put_work& work, const storage::clock_reading& now);
/// Verifies what was pulled, writes and commits it, and lets go of the rest.
void finish_put(storage::block_store& store, put_work& work, const storage::clock_reading& now);
/// Lets go of everything that was reserved.
void abandon_put(storage::block_store& store, const put_work& work);

[[nodiscard]] wire::msg<wire::KvPutDone> put_done(std::span<const wire::KvPutOutcome> outcomes);

}  // namespace deepinfer
