#pragma once

#include "storage/memory/fault_plan.hpp"
#include "storage/metadata_journal.hpp"

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>

namespace deepinfer::storage {

/// A journal in memory: the promises of a write-ahead log and nothing better. A crash of the
/// machine keeps some number of the last steps that were not synced, never a later one without an
/// earlier.
class memory_journal : public metadata_journal {
public:
  explicit memory_journal(std::shared_ptr<fault_plan> plan) : plan_(std::move(plan)) {}

  result<journal_contents> load(const std::function<void(const block_record&)>& each) override;
  result<void> apply(const journal_batch& batch, journal_wait wait) override;
  result<std::vector<block_content>> contents(std::span<const block_key> keys) override;
  result<void> sync() override;

  void lose_unsynced();

private:
  struct tables {
    std::map<block_key, block_record> records;
    std::map<block_key, block_content> contents;
    std::map<uint64_t, uint64_t> writers;
    std::set<uint32_t> rewrite_due;
    std::set<scope_id> purge_due;
    store_identity identity;
  };
  static void put(tables& into, const journal_batch& batch);
  void settle();

  std::shared_ptr<fault_plan> plan_;
  std::mutex mutex_;
  tables now_, synced_;
  std::deque<journal_batch> unsynced_;
  bool interrupted_ = false;
};

}  // namespace deepinfer::storage
