#include "storage/memory/memory_journal.hpp"

namespace deepinfer::storage {

namespace {

constexpr size_t max_unsynced = 1024;  // a real log is flushed in time, too
const failure gone{error_code::unreachable, "the machine crashed"};

}  // namespace

result<journal_contents> memory_journal::load(
    const std::function<void(const block_record&)>& each) {
  if (plan_->crashed()) return gone;
  std::lock_guard lock{mutex_};
  interrupted_ = false;
  journal_contents found;
  found.identity = now_.identity;
  found.has_identity = now_.identity != store_identity{};
  for (const auto& [id, epoch] : now_.writers) found.writers.push_back({id, epoch});
  found.rewrite_due.assign(now_.rewrite_due.begin(), now_.rewrite_due.end());
  found.purge_due.assign(now_.purge_due.begin(), now_.purge_due.end());
  for (const auto& [key, record] : now_.records) each(record);
  return found;
}

void memory_journal::put(tables& into, const journal_batch& batch) {
  for (const block_key& key : batch.erase) {
    into.records.erase(key);
    into.contents.erase(key);
  }
  for (const block_record& record : batch.put) into.records[record.key] = record;
  for (const auto& [key, content] : batch.contents) into.contents[key] = content;
  for (const writer_ref& writer : batch.writers) into.writers[writer.id] = writer.epoch;
  for (const uint32_t segment : batch.rewrite_due) into.rewrite_due.insert(segment);
  for (const uint32_t segment : batch.rewrite_done) into.rewrite_due.erase(segment);
  for (const scope_id scope : batch.purge_due) into.purge_due.insert(scope);
  for (const scope_id scope : batch.purge_done) into.purge_due.erase(scope);
  if (batch.identity) into.identity = *batch.identity;
}

void memory_journal::settle() {
  for (const journal_batch& batch : unsynced_) put(synced_, batch);
  unsynced_.clear();
}

result<void> memory_journal::apply(const journal_batch& batch, journal_wait wait) {
  if (!plan_->proceed()) {
    // the step that the crash interrupted may be in the log or not
    std::lock_guard lock{mutex_};
    if (!interrupted_) {
      interrupted_ = true;
      if (plan_->below(2) == 0) {
        put(now_, batch);
        unsynced_.push_back(batch);
      }
    }
    return gone;
  }
  std::lock_guard lock{mutex_};
  put(now_, batch);
  unsynced_.push_back(batch);
  if (wait == journal_wait::device || unsynced_.size() > max_unsynced) settle();
  return {};
}

result<std::vector<block_content>> memory_journal::contents(std::span<const block_key> keys) {
  if (plan_->crashed()) return gone;
  std::lock_guard lock{mutex_};
  std::vector<block_content> found(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto at = now_.contents.find(keys[i]);
    if (at != now_.contents.end()) found[i] = at->second;
  }
  return found;
}

result<void> memory_journal::sync() {
  if (!plan_->proceed()) return gone;
  std::lock_guard lock{mutex_};
  settle();
  return {};
}

void memory_journal::lose_unsynced() {
  std::lock_guard lock{mutex_};
  for (uint64_t kept = plan_->below(unsynced_.size() + 1); kept > 0; --kept) {
    put(synced_, unsynced_.front());
    unsynced_.pop_front();
  }
  unsynced_.clear();
  now_ = synced_;
  interrupted_ = false;
}

}  // namespace deepinfer::storage
