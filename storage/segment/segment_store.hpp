#pragma once

#include "storage/block_store.hpp"
#include "storage/catalog/catalogue.hpp"
#include "storage/catalog/clock_guard.hpp"
#include "storage/catalog/ticket_table.hpp"
#include "storage/metadata_journal.hpp"
#include "storage/segment/segment_table.hpp"
#include "storage/store_config.hpp"

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <unordered_map>

namespace deepinfer::storage {

/// The store behind all rooms: blocks in segment files of a `file_layer`, records in a
/// `metadata_journal`, the rules in a `catalogue`. Has no thread of its own.
///
/// Order of things, which makes a crash harmless: bytes are written (and, as the policy says,
/// synced) before the journal names them; a file is removed only after the journal has forgotten
/// all its blocks; space is never written twice.
///
/// Locks, outermost first: `rewriting_` (one thread rewrites files at a time), `order_` (one change
/// at a time, held over the journal), `append_` (who gets which space), `sync_` (one sync at a
/// time), `state_` (everything in memory; never held over a device).
class segment_store final : public block_store {
public:
  /// Reads the journal, drops what is not whole, removes files that nobody names.
  static result<std::unique_ptr<block_store>> open(const store_config& config,
                                                   std::unique_ptr<file_layer> files,
                                                   std::unique_ptr<metadata_journal> journal);

  result<std::vector<reservation>> reserve(const write_context& context,
                                           std::span<const reserve_item> items) override;
  result<std::vector<write_outcome>> write(std::span<const write_item> items,
                                           const clock_reading& now) override;
  result<std::vector<commit_outcome>> commit(std::span<const commit_item> items,
                                             const clock_reading& now) override;
  void abandon(std::span<const ticket_id> tickets) override;
  result<void> fence(const writer_ref& writer) override;

  result<prefix_match> match(const prefix_query& query,
                             lease_wish wish,
                             const clock_reading& now) override;
  result<std::vector<read_outcome>> read(std::span<const read_item> items,
                                         const lease_ref& lease,
                                         const clock_reading& now) override;
  std::vector<block_place> places(std::span<const block_key> keys) const override;
  result<void> renew(const lease_ref& lease, const clock_reading& now) override;
  result<void> release(const lease_ref& lease,
                       const lease_use& use,
                       const clock_reading& now) override;
  result<void> touch(const block_key& last, traffic_class use, const clock_reading& now) override;

  result<uint64_t> expire(const clock_reading& now, uint64_t budget_blocks) override;
  result<uint64_t> relieve(const clock_reading& now, uint64_t budget_blocks) override;
  result<uint64_t> make_room(uint64_t bytes, const clock_reading& now) override;
  result<uint64_t> compact(uint64_t budget_bytes, const clock_reading& now) override;
  result<uint64_t> scrub(uint64_t budget_bytes, const clock_reading& now) override;
  result<purge_totals> purge(scope_id scope, const clock_reading& now) override;
  result<purge_part> purge_some(scope_id scope, uint64_t cursor, const clock_reading& now) override;
  void acknowledge_clock(const clock_reading& now) override;
  void set_quota(scope_id scope, uint64_t bytes) override;
  result<void> flush() override;

  head_page heads(uint64_t cursor, size_t entries) const override;
  result<std::vector<group_block>> group(const group_query& query) override;
  result<uint64_t> give_away(std::span<const block_key> keys, const clock_reading& now) override;

  change_batch changes_after(const feed_position& position, size_t limit) override;
  snapshot_page snapshot(uint64_t cursor, size_t limit) override;
  [[nodiscard]] store_stats stats() const override;
  [[nodiscard]] uint64_t epoch() const override { return identity_.epoch; }

  /// What is wrong in the rules of blocks' lives, or nothing; slow, for tests.
  [[nodiscard]] std::optional<std::string> broken_rule() const;

private:
  struct granted_lease {
    uint32_t entry = 0;
    std::chrono::milliseconds expires{};
  };
  /// Where a block is and what its bytes must be, with the file kept open.
  struct found_block {
    uint32_t entry = catalogue::none;
    block_key key;
    block_location location;
    uint32_t length = 0;
    uint64_t checksum = 0;
    read_check check = read_check::by_store;
    std::shared_ptr<stored_file> file;
  };
  /// One block on its way into a file.
  struct block_write {
    size_t item = 0;
    ticket_id id{};
    block_key key;
    block_location place;
    std::shared_ptr<stored_file> file;
    uint64_t checksum = 0;
    std::vector<std::byte> tail;
  };
  struct counters {
    std::atomic<uint64_t> stored{0}, refreshed{0}, touched{0}, diverged{0}, mismatched{0},
        over_quota{0}, refused_full{0}, hash_collisions{0}, read_blocks{0}, read_bytes{0},
        written_bytes{0}, read_failures{0}, write_failures{0}, quarantined{0}, expired{0},
        evicted{0}, purged{0}, given_away{0}, compacted_bytes{0}, scrubbed_bytes{0},
        scrub_passes{0};
  };

  segment_store(const store_config& config,
                std::unique_ptr<file_layer> files,
                std::unique_ptr<metadata_journal> journal);
  result<void> load();
  result<void> load_files();
  void trim_files(const std::unordered_map<uint32_t, uint64_t>& ends);

  // changes (segment_store_change.cpp)
  using changing = std::function<void(catalogue_effects&, journal_batch&)>;
  result<void> change(const changing& step);
  void collect(const catalogue_effects& effects, journal_batch& batch);
  result<void> persist(journal_batch batch);
  void drop_empty_segments();
  cluster_time observe(const clock_reading& now);
  void give_back(const ticket& ended);
  void let_go(const ticket& gone);
  result<purge_part> purge_from(scope_id scope, uint64_t cursor);
  void begin_purge(scope_id scope, journal_batch& batch);
  void rewrite_soon(uint32_t segment, journal_batch& batch);
  result<void> finish_purges();
  void end_purge(scope_id scope);

  // writing
  [[nodiscard]] result<void> check_items(std::span<const reserve_item> items) const;
  reservation reserve_one(const write_context& context, const reserve_item& item, cluster_time now);
  std::vector<block_write> place_items(std::span<const write_item> items,
                                       std::vector<write_outcome>& answers,
                                       const clock_reading& now);
  std::optional<block_write> place_one(const write_item& item,
                                       write_outcome& answer,
                                       const clock_reading& now);
  write_outcome end_write(const block_write& done, file_operation::outcome result);
  commit_outcome commit_one(ticket done,
                            uint64_t checksum,
                            cluster_time now,
                            catalogue_effects& effects,
                            journal_batch& batch);
  result<block_location> take_space(uint64_t bytes, uint64_t limit);
  result<block_location> start_segment(uint64_t bytes);
  result<void> sync_segments(std::span<const uint32_t> segments);

  // reading
  [[nodiscard]] found_block locate(uint32_t entry);
  [[nodiscard]] bool valid(const lease_ref& ref, const clock_reading& now) const;
  void read_blocks(std::span<const found_block> blocks,
                   std::span<const std::span<std::byte>> into,
                   std::span<read_status> statuses);
  void quarantine(std::span<const found_block> bad);
  uint32_t confirmed_prefix(const prefix_query& query);
  uint32_t confirm_contents(const prefix_query& query, uint32_t blocks);

  // upkeep
  [[nodiscard]] bool is_full_for(uint64_t bytes) const;
  [[nodiscard]] uint64_t file_bytes() const;
  std::optional<uint32_t> choose_rewrite(uint64_t wanted_bytes);
  result<void> erase_purged();
  result<void> rewrite_some(uint64_t budget_bytes, uint64_t wanted_bytes);
  result<void> rewrite(uint32_t segment);
  std::vector<block_write> place_moves(std::span<const found_block> blocks,
                                       std::span<const read_status> statuses);
  result<void> move_blocks(std::span<const found_block> blocks);

  const store_config config_;
  const std::unique_ptr<file_layer> files_;
  const std::unique_ptr<metadata_journal> journal_;

  std::mutex rewriting_;
  std::mutex order_;
  std::mutex append_;
  std::mutex sync_;
  mutable std::shared_mutex state_;
  catalogue catalogue_;
  ticket_table tickets_;
  segment_table segments_;
  std::unordered_map<uint64_t, granted_lease> leases_;
  store_identity identity_;
  clock_guard clock_;
  uint32_t active_ = 0;  // segment that is written; 0: none
  uint32_t scrub_next_ = 0;
  uint64_t next_lease_ = 1;
  uint64_t lost_at_open_ = 0;
  bool identity_changed_ = false;
  std::map<scope_id, uint32_t> purging_;  // how many purges of it are under way
  std::set<scope_id> unfinished_;         // purges that the journal stopped
  uint64_t erase_cursor_ = 0;             // guarded by `rewriting_`; 0: at the beginning, or not on
  std::deque<journal_batch> unwritten_;   // guarded by `order_`
  std::atomic<bool> broken_{false};
  std::atomic<bool> erased_due_{false};  // the journal still holds contents of purged blocks
  std::atomic<bool> erasing_{false};     // it lets go of some of them just now
  counters count_;
};

}  // namespace deepinfer::storage
