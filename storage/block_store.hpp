#pragma once

#include "storage/block/block_record.hpp"
#include "storage/group_types.hpp"
#include "storage/store_types.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace deepinfer::storage {

/// A store of block bytes that outlive requests. All stores behave alike; they differ in where
/// bytes and records lie. Every function may be called from any thread; those that touch bytes
/// block their caller for as long as the device takes, so they belong on threads made for that.
/// Time comes in with each call. A failure (`unreachable`) means the medium failed, and is never
/// about one block: what concerns one block is an outcome in the answer.
///
/// Truths: readers see committed blocks only; a committed block's parent is committed (KV-10); a
/// leased prefix is not removed; bytes are handed out only after their checksum was compared; after
/// a crash at any instruction a block may be lost, never wrong.
class block_store {
public:
  virtual ~block_store() = default;

  // ---- writing (KV-17 to KV-21): reserve, write bytes, commit; all in batches of one chain

  /// One answer per item, in order. A parent may stand earlier in the same batch. `stale_epoch` if
  /// the writer has a newer life, `invalid_argument` if a key is not that of its content,
  /// `too_large` for blocks, contents or batches over their limits.
  virtual result<std::vector<reservation>> reserve(const write_context& context,
                                                   std::span<const reserve_item> items) = 0;
  /// Bytes of granted tickets; blocks of one call lie together. One outcome per item.
  virtual result<std::vector<write_outcome>> write(std::span<const write_item> items,
                                                   const clock_reading& now) = 0;
  /// In order, parents first. Durable as the store's policy says when it returns.
  virtual result<std::vector<commit_outcome>> commit(std::span<const commit_item> items,
                                                     const clock_reading& now) = 0;
  virtual void abandon(std::span<const ticket_id> tickets) = 0;
  /// Ends the reservations of all older lives of a writer.
  virtual result<void> fence(const writer_ref& writer) = 0;

  // ---- reading (KV-9 to KV-11, KV-23 to KV-28)

  /// The longest stored prefix of `query`, whose last block and its parent have the query's
  /// content. With `lease_wish::grant` that prefix is protected until the lease ends.
  virtual result<prefix_match> match(const prefix_query& query,
                                     lease_wish wish,
                                     const clock_reading& now) = 0;
  /// Bytes, one outcome per item, verified here unless the item says otherwise. Blocks that fail
  /// are quarantined with all behind them.
  /// A lease that has ended or is of another life of the store makes all outcomes `stale`.
  virtual result<std::vector<read_outcome>> read(std::span<const read_item> items,
                                                 const lease_ref& lease,
                                                 const clock_reading& now) = 0;
  /// Where blocks lie now, one place for each key; waits for no device. A file may be rewritten
  /// even under a lease: it is gone then, never changed, and the block has another place.
  [[nodiscard]] virtual std::vector<block_place> places(std::span<const block_key> keys) const = 0;
  virtual result<void> renew(const lease_ref& lease, const clock_reading& now) = 0;
  /// Ends a lease. A used one refreshes its prefix for `use` (KV-13), an unused one does not
  /// (KV-14).
  virtual result<void> release(const lease_ref& lease,
                               const lease_use& use,
                               const clock_reading& now) = 0;
  /// Refreshes a prefix by its last block; `not_found` if it is not stored.
  virtual result<void> touch(const block_key& last,
                             traffic_class use,
                             const clock_reading& now) = 0;

  // ---- upkeep: each call does at most `budget` of work and says how much it did

  /// Removes what is past its expiry, leaf first, and ends leases and reservations whose time is
  /// over. Does nothing to blocks while the clock is frozen.
  virtual result<uint64_t> expire(const clock_reading& now, uint64_t budget_blocks) = 0;
  /// Above the high mark of occupancy: frees space down to the low one (KV-16).
  virtual result<uint64_t> relieve(const clock_reading& now, uint64_t budget_blocks) = 0;
  /// For a write of so many bytes that found the store full: removes blocks by the same rules, and
  /// rewrites files, until there is room for it or nothing more can go. Returns the bytes of files
  /// given back.
  virtual result<uint64_t> make_room(uint64_t bytes, const clock_reading& now) = 0;
  /// Rewrites segments of which less than the set share is live; returns the bytes given back.
  virtual result<uint64_t> compact(uint64_t budget_bytes, const clock_reading& now) = 0;
  /// Reads and verifies on from where the last call stopped (KV-29); returns the bytes read.
  virtual result<uint64_t> scrub(uint64_t budget_bytes, const clock_reading& now) = 0;
  /// Removes all blocks of a scope: none is offered when this returns; bytes of leased ones go when
  /// their leases end, files holding any of it are due for `compact` (SEC-4).
  virtual result<purge_totals> purge(scope_id scope, const clock_reading& now) = 0;
  /// The same in parts, so that others go on in between: cursor 0 begins, then `next_cursor`. Until
  /// the last part nothing of the scope is taken in (`busy`), what was reserved before is `stale`.
  /// After a crash in between, the next life removes the rest before it offers anything; after a
  /// failure, purge again.
  virtual result<purge_part> purge_some(scope_id scope,
                                        uint64_t cursor,
                                        const clock_reading& now) = 0;
  /// An operator says that the clock is right, after a jump (KV-15).
  virtual void acknowledge_clock(const clock_reading& now) = 0;
  virtual void set_quota(scope_id scope, uint64_t bytes) = 0;
  virtual result<void> flush() = 0;

  // ---- moving groups to the stores that own them

  /// Heads among the next `entries` places of the index from a cursor on (0: the first). A walk
  /// sees every group that is there all the time, and may miss one that comes meanwhile.
  [[nodiscard]] virtual head_page heads(uint64_t cursor, size_t entries) const = 0;
  /// Blocks of one group, at most `query.limit`; `read` has their bytes.
  virtual result<std::vector<group_block>> group(const group_query& query) = 0;
  /// Removes blocks that their owners have, in the order given: those that are leased, or have a
  /// block behind them, stay. Returns how many went.
  virtual result<uint64_t> give_away(std::span<const block_key> keys, const clock_reading& now) = 0;

  // ---- what others know about it (KV-8)

  virtual change_batch changes_after(const feed_position& position, size_t limit) = 0;
  virtual snapshot_page snapshot(uint64_t cursor, size_t limit) = 0;
  [[nodiscard]] virtual store_stats stats() const = 0;
  [[nodiscard]] virtual uint64_t epoch() const = 0;
};

}  // namespace deepinfer::storage
