// Groups for whoever moves them to their owners, and blocks that went there.
#include "storage/catalog/group_walk.hpp"
#include "storage/segment/segment_store.hpp"

namespace deepinfer::storage {

head_page segment_store::heads(uint64_t cursor, size_t entries) const {
  std::shared_lock state{state_};
  return heads_from(catalogue_, cursor, entries);
}

result<std::vector<group_block>> segment_store::group(const group_query& query) {
  if (query.limit > config_.max_batch)
    return failure{error_code::too_large, "a page of a group longer than max_batch: ask for less"};
  std::vector<group_block> blocks;
  std::vector<block_key> keys;
  {
    std::shared_lock state{state_};
    for (const uint32_t id : entries_of(catalogue_, query)) {
      blocks.push_back({catalogue_.record_of(id), {}});
      keys.push_back(blocks.back().record.key);
    }
  }
  auto contents = journal_->contents(keys);
  if (!contents) {
    ++count_.read_failures;
    return contents.error();
  }
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i].content = std::move((*contents)[i]);
  return blocks;
}

result<uint64_t> segment_store::give_away(std::span<const block_key> keys,
                                          const clock_reading& now) {
  if (keys.size() > config_.max_batch)
    return failure{error_code::too_large, "too many blocks in one call: split it (max_batch)"};
  observe(now);
  uint64_t removed = 0;
  auto done = change([&](catalogue_effects& effects, journal_batch&) {
    for (const block_key& key : keys) {
      const uint32_t id = catalogue_.find(key);
      if (catalogue_.is_committed(id) && catalogue_.drop(id, effects)) ++removed;
    }
  });
  if (!done) return done.error();
  count_.given_away += removed;
  return removed;
}

}  // namespace deepinfer::storage
