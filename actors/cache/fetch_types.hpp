#pragma once

#include "actors/cache/block_shelf.hpp"
#include "actors/remote/actor_ref.hpp"
#include "proto/types/result.hpp"
#include "storage/block/group_cut.hpp"
#include "storage/store_types.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

/// What goes in and out of `fetch_core`, as plain values.
namespace deepinfer::fetch {

using time_point = std::chrono::nanoseconds;

/// Names a fetch; the asker's choice.
struct ticket_id {
  uint64_t hi = 0, lo = 0;
  friend auto operator<=>(const ticket_id&, const ticket_id&) = default;
};

/// Blocks that an engine would like to have.
struct order {
  ticket_id ticket;
  time_point deadline{};
  std::vector<storage::block_key> keys;
  std::vector<int32_t> tokens;  ///< keys.size() whole blocks
  storage::group_cut cut;
  std::vector<std::vector<actor_ref>> groups;  ///< stores of each group, best first
  storage::traffic_class traffic = storage::traffic_class::chat;
};

/// What a store said about a group.
struct opened {
  uint32_t blocks = 0;  ///< from the group's first on
  storage::lease_ref lease;
  std::chrono::milliseconds ttl{};
  std::string folder;  ///< with places: where the files lie
  storage::block_key folder_mark;
  struct place {
    storage::block_location at;
    uint32_t length = 0;
    uint64_t checksum = 0;
  };
  std::vector<place> places;  ///< of those blocks, or empty
};

enum class outcome : uint8_t {
  ok,
  absent,
  bad,      ///< not the bytes of the checksum
  failed,   ///< the medium, the pull, or time
  stale,    ///< the lease is not valid: nothing more of this session
  no_room,  ///< here or there; again, later
  gone,     ///< the store does not answer: nothing more of this session
};

struct block_done {
  outcome what = outcome::failed;
  uint32_t length = 0;
  uint64_t checksum = 0;
};

// ---- effects: what is to be done; each with an id is answered by a call of the core

struct open_group {
  uint64_t job = 0;
  uint32_t store_index = 0;
  actor_ref store;
  std::vector<storage::block_key> keys;
  std::vector<int32_t> tokens;
  uint32_t first_depth = 0;
  std::chrono::milliseconds timeout{};
};

struct read_blocks {
  uint64_t batch = 0;
  actor_ref store;
  storage::lease_ref lease;
  std::vector<storage::block_key> keys;
  std::string folder;  ///< with places; else to be asked for from the store
  storage::block_key folder_mark;
  std::vector<opened::place> places;
  std::chrono::milliseconds timeout{};
};

struct renew_lease {
  actor_ref store;
  storage::lease_ref lease;
};

struct close_lease {
  actor_ref store;
  storage::lease_ref lease;
  storage::lease_use use;
};

struct report_bad {
  actor_ref store;
  storage::block_key key;
};

struct answer {
  ticket_id ticket;
  std::vector<shelf_place> blocks;
  failure why{error_code::ok, {}};
};

using effect = std::variant<open_group, read_blocks, renew_lease, close_lease, report_bad, answer>;

/// Bytes behind one another at their source that go behind one another into the arena: one read.
struct run {
  uint32_t first = 0;  ///< of the batch's blocks
  uint32_t count = 0;
  uint64_t from = 0;  ///< at the source
  uint64_t into = 0;  ///< in the arena
  uint64_t bytes = 0;
};

/// A block of a batch at its source; length 0: it does not come.
struct piece {
  uint32_t source = 0;  ///< file, region: pieces of different ones never go together
  uint64_t offset = 0;
  uint32_t length = 0;
};

}  // namespace deepinfer::fetch
