#pragma once

#include "storage/block/block_record.hpp"

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Plain values of the conversation with a `block_store`.
namespace deepinfer::storage {

/// The cluster's wall clock, and a clock of this machine that never jumps, read together. Blocks
/// live by the first, leases and reservations by the second; the second also tells a jump of the
/// first from time that passed (KV-15).
struct clock_reading {
  cluster_time wall{};
  std::chrono::milliseconds steady{};
};

enum class ticket_id : uint64_t {};

struct write_context {
  scope_id scope{};
  writer_ref writer;
  traffic_class use = traffic_class::chat;
  clock_reading now;
};

struct reserve_item {
  block_key key;
  block_key parent;  ///< the root for depth 0
  uint32_t depth = 0;
  uint32_t length = 0;
  std::span<const std::byte> content;
  cluster_time expiry{};  ///< of a block that another store had: its end stays; 0: by its class
};

enum class reserve_outcome : uint8_t {
  granted,     ///< write the bytes, then commit
  present,     ///< stored already: commit the checksum without writing, which refreshes
  no_parent,   ///< the parent is neither stored nor reserved
  over_quota,  ///< the scope has its share of space (SEC-3); not an error of the request
  full,        ///< the store is; more after `relieve`
  busy,        ///< too much is reserved, or a bad block of this key is still leased; later
};

struct reservation {
  reserve_outcome outcome = reserve_outcome::busy;
  ticket_id ticket{};  ///< of `granted` and `present`
};

struct write_item {
  ticket_id ticket{};
  std::span<const std::byte> bytes;
};

enum class write_outcome : uint8_t {
  written,
  stale,         ///< no such ticket, its time is over, or its writer has a newer life
  wrong_length,  ///< not the length that was reserved
  failed,        ///< the medium refused these bytes; the ticket is gone
  full,          ///< no space left on the medium; the ticket is gone
};

struct commit_item {
  ticket_id ticket{};
  uint64_t checksum = 0;  ///< of the bytes at their source, by `block_checksum`
};

enum class commit_outcome : uint8_t {
  stored,
  refreshed,  ///< was there with the same bytes (KV-20)
  diverged,   ///< is there with other bytes, which stay; counted (KV-20)
  no_parent,  ///< the parent went away or never came
  mismatch,   ///< the bytes changed between source and store
  stale,      ///< as for writing, or no bytes were written
};

/// A prompt's full blocks, or those of one group: their keys and what they were made of.
struct prefix_query {
  std::span<const block_key> keys;
  std::span<const int32_t> tokens;    ///< keys.size() whole blocks
  std::span<const media_mark> media;  ///< of the whole prompt
  uint32_t first_depth = 0;           ///< of keys[0]: where the part begins that this store has
};

enum class lease_wish : uint8_t { none, grant };

/// A lease, and the life of the store that granted it. All zero: without one.
struct lease_ref {
  uint64_t id = 0;
  uint64_t epoch = 0;

  friend bool operator==(const lease_ref&, const lease_ref&) = default;
};

struct prefix_match {
  uint32_t blocks = 0;
  uint64_t epoch = 0;
  lease_ref lease;        ///< when wished for and blocks > 0 and a lease was free
  cluster_time expiry{};  ///< of the last block
};

enum class use_kind : uint8_t { unused, used };
struct lease_use {
  use_kind kind = use_kind::unused;
  traffic_class traffic = traffic_class::chat;
};

/// Who compares the bytes with their checksum: the store, or whoever the bytes go to, so that it is
/// done once on the way, at its end.
enum class read_check : uint8_t { by_store, by_reader };

struct read_item {
  block_key key;
  std::span<std::byte> into;  ///< at least the block's length
  read_check check = read_check::by_store;
};

enum class read_status : uint8_t {
  ok,
  absent,     ///< not stored (any more)
  bad,        ///< failed its checksum twice; now quarantined
  failed,     ///< the medium did not answer; the block stays
  too_small,  ///< `into` is shorter than the block
  stale,      ///< the lease is not valid
};

struct read_outcome {
  read_status status = read_status::absent;
  uint32_t length = 0;
  uint64_t checksum = 0;  ///< that the bytes must have
};

/// Where the bytes of a committed block lie, for readers that have the same files.
struct block_place {
  block_location location;
  uint32_t length = 0;  ///< 0: no such block
  uint64_t checksum = 0;
};

enum class change_kind : uint8_t { stored, removed, touched };

/// What an index elsewhere needs to know of one block.
struct block_change {
  uint64_t sequence = 0;
  change_kind kind = change_kind::stored;
  block_key key;
  block_key parent;
  uint32_t depth = 0;
  uint64_t content_digest = 0;
  cluster_time expiry{};
};

/// A place in the stream of one life of one store: everything up to `sequence` is known.
struct feed_position {
  uint64_t epoch = 0;
  uint64_t sequence = 0;

  friend bool operator==(const feed_position&, const feed_position&) = default;
};

struct change_batch {
  bool gap = false;  ///< other life, or the buffer no longer reaches back: take a snapshot
  feed_position next;
  std::vector<block_change> changes;
};

/// Part of all stored blocks. Take the position of the first page, walk all pages, then apply the
/// changes after it: applying is idempotent, so pages need not be of one moment.
struct snapshot_page {
  feed_position position;
  uint64_t next_cursor = 0;  ///< 0: this was the last page
  std::vector<block_change> blocks;
};

/// What a purge took away.
struct purge_totals {
  uint64_t blocks = 0, bytes = 0;
};

/// One part of a purge.
struct purge_part {
  purge_totals removed;
  uint64_t next_cursor = 0;  ///< where the next part begins; 0: nothing of the scope is left
};

/// Gauges are computed from state, the rest counts since the store was opened.
struct store_stats {
  uint64_t blocks = 0, live_bytes = 0, reserved_bytes = 0, file_bytes = 0, capacity_bytes = 0;
  uint64_t segments = 0, leases = 0, reservations = 0, doomed = 0, scopes = 0;
  uint64_t stored = 0, refreshed = 0, touched = 0, diverged = 0, mismatched = 0;
  uint64_t over_quota = 0, refused_full = 0, hash_collisions = 0;
  uint64_t read_blocks = 0, read_bytes = 0, written_bytes = 0, read_failures = 0,
           write_failures = 0;
  uint64_t quarantined = 0, expired = 0, evicted = 0, evicted_below_floor = 0, purged = 0,
           given_away = 0;
  uint64_t compacted_bytes = 0, scrubbed_bytes = 0, scrub_passes = 0;
  uint64_t lost_at_open = 0;  ///< records dropped when the store was opened
  /// How long what was removed for space had not been used (KV-16); UINT64_MAX: none was.
  uint64_t youngest_eviction_ms = UINT64_MAX, last_eviction_ms = UINT64_MAX;
  bool clock_frozen = false;
  bool broken =
      false;  ///< the journal refuses writes: reads go on, writes when it takes them again
};

}  // namespace deepinfer::storage
