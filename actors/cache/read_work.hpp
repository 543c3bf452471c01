#pragma once

#include "actors/cache/kv_wire.hpp"
#include "actors/remote/actor_ref.hpp"

#include <chrono>
#include <vector>

/// A `KvRead` from its keys to its answer, without actors.
namespace deepinfer {

struct read_work {
  std::vector<storage::block_key> keys;
  std::vector<storage::block_place> places;  ///< of the keys, when the question came
  storage::lease_ref lease;
  staged_room room;     ///< for the first `admitted` keys
  size_t admitted = 0;  ///< the others found no room
  bool digests = true;  ///< of the parts; who verifies with the blocks' checksums needs none
  storage::read_check check = storage::read_check::by_store;
  std::vector<wire::KvReadStatus> statuses;
  std::vector<staged_part> parts;  ///< of those that are `ok`

  /// Bytes of room that the first `count` keys need.
  [[nodiscard]] uint64_t room_for(size_t count) const;
};

/// Reads into the room; what is read is digested here if asked to.
void read_blocks(storage::block_store& store, read_work& work, const storage::clock_reading& now);

/// The answer of a read; `ttl` is that of the bytes in memory.
[[nodiscard]] wire::msg<wire::KvReadDone> read_done(const read_work& work,
                                                    const actor_ref& owner,
                                                    std::chrono::milliseconds ttl);
/// One status for all.
[[nodiscard]] wire::msg<wire::KvReadDone> read_done(size_t blocks, wire::KvReadStatus status);

/// A leased prefix, and where its blocks lie when others may read the files.
struct open_work {
  std::vector<storage::block_key> keys;
  std::vector<int32_t> tokens;
  uint32_t first_depth = 0;
  result<storage::prefix_match> match = storage::prefix_match{};
  std::vector<storage::block_place> places;
};

}  // namespace deepinfer
