#pragma once

#include "storage/block/block_record.hpp"

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace deepinfer::storage {

/// What a store knows about itself between two lives.
struct store_identity {
  uint64_t epoch = 0;         ///< of the last life
  cluster_time last_time{};   ///< that its clock had reached
  uint32_t next_segment = 1;  ///< numbers are never used again

  friend bool operator==(const store_identity&, const store_identity&) = default;
};

/// One atomic step: after a crash all of it is there or none, and never without the steps before.
/// Stands among the segments due for rewriting while the journal itself holds purged contents.
/// No segment has this number.
constexpr uint32_t erased_mark = 0;

struct journal_batch {
  std::vector<block_record> put;
  std::vector<std::pair<block_key, block_content>> contents;
  std::vector<block_key> erase;       ///< records with their contents
  std::vector<writer_ref> writers;    ///< lives of writers
  std::vector<uint32_t> rewrite_due;  ///< segments that hold purged bytes, and `erased_mark`
  std::vector<uint32_t> rewrite_done;
  std::vector<scope_id> purge_due;  ///< purges that have begun; a crash does not end them
  std::vector<scope_id> purge_done;
  std::optional<store_identity> identity;

  [[nodiscard]] bool empty() const {
    return put.empty() && contents.empty() && erase.empty() && writers.empty() &&
           rewrite_due.empty() && rewrite_done.empty() && purge_due.empty() && purge_done.empty() &&
           !identity;
  }
};

enum class journal_wait : uint8_t {
  kernel,  ///< survives the process
  device,  ///< survives the machine
};

/// What an earlier life left, besides its records.
struct journal_contents {
  store_identity identity;
  bool has_identity = false;  ///< as every store has that was ever opened
  std::vector<writer_ref> writers;
  std::vector<uint32_t> rewrite_due;
  std::vector<scope_id> purge_due;
  uint64_t unreadable = 0;  ///< records that failed their checksum; erased
};

/// Where a store's records live: the seam between the rules and a database. Calls of `apply` come
/// one at a time; `contents` may come from any thread at any time.
class metadata_journal {
public:
  virtual ~metadata_journal() = default;

  virtual result<journal_contents> load(const std::function<void(const block_record&)>& each) = 0;
  virtual result<void> apply(const journal_batch& batch, journal_wait wait) = 0;
  /// What is missing or damaged is empty.
  virtual result<std::vector<block_content>> contents(std::span<const block_key> keys) = 0;
  virtual result<void> sync() = 0;
  /// Works through the files in parts of bounded size, from cursor 0 on: returns the next cursor,
  /// or 0 at the end. What was erased before part 0 is then in no file any more. Other calls go on
  /// meanwhile; from any thread. A journal without files has nothing to do.
  virtual result<uint64_t> drop_erased(uint64_t cursor) {
    static_cast<void>(cursor);
    return 0;
  }
};

}  // namespace deepinfer::storage
