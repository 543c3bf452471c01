// Match and read.
#include "storage/block/block_checksum.hpp"
#include "storage/segment/segment_store.hpp"

#include <algorithm>

namespace deepinfer::storage {

namespace {

/// The content of one block of a query.
block_content content_at(const prefix_query& query, size_t index) {
  const size_t block_tokens = query.tokens.size() / query.keys.size();
  return content_of(query.tokens.subspan(index * block_tokens, block_tokens),
                    query.first_depth + index, query.media);
}

}  // namespace

/// By keys and content digests; `state_` is held.
uint32_t segment_store::confirmed_prefix(const prefix_query& query) {
  uint32_t blocks = catalogue_.committed_prefix(query.keys, query.first_depth);
  for (uint32_t checked = 0; blocks > 0 && checked < 2 && checked < blocks; ++checked) {
    const uint32_t index = blocks - 1 - checked;
    const uint32_t id = catalogue_.find(query.keys[index]);
    if (catalogue_.at(id).content_digest == content_digest(content_at(query, index))) continue;
    ++count_.hash_collisions;
    blocks = index;  // what is in front of it is looked at anew
    checked = UINT32_MAX;
  }
  return blocks;
}

/// By the tokens themselves, which the journal holds (KV-7).
uint32_t segment_store::confirm_contents(const prefix_query& query, uint32_t blocks) {
  while (blocks > 0) {
    const uint32_t first = blocks >= 2 ? blocks - 2 : 0;
    const auto stored = journal_->contents(query.keys.subspan(first, blocks - first));
    if (!stored) {
      ++count_.read_failures;
      return 0;
    }
    uint32_t good = first;
    while (good < blocks && (*stored)[good - first] == content_at(query, good)) ++good;
    if (good == blocks) return blocks;
    ++count_.hash_collisions;
    blocks = good;
  }
  return 0;
}

result<prefix_match> segment_store::match(const prefix_query& query,
                                          lease_wish wish,
                                          const clock_reading& now) {
  if (query.keys.size() > config_.max_query_blocks)
    return failure{error_code::too_large, "a prompt of more blocks than max_query_blocks"};
  prefix_match found;
  found.epoch = identity_.epoch;
  if (query.keys.empty()) return found;
  if (query.tokens.size() % query.keys.size() != 0 || query.tokens.empty())
    return failure{error_code::invalid_argument, "a query has the tokens of all its blocks"};
  observe(now);
  uint32_t blocks = 0;
  {
    std::shared_lock state{state_};
    blocks = confirmed_prefix(query);
  }
  blocks = confirm_contents(query, blocks);
  std::unique_lock state{state_};
  blocks =
      std::min(blocks, catalogue_.committed_prefix(query.keys.first(blocks), query.first_depth));
  found.blocks = blocks;
  if (blocks == 0) return found;
  const uint32_t last = catalogue_.find(query.keys[blocks - 1]);
  found.expiry = cluster_time{catalogue_.at(last).expiry_ms};
  if (wish == lease_wish::none || leases_.size() >= config_.max_leases || !catalogue_.pin(last))
    return found;
  found.lease = {next_lease_++, identity_.epoch};
  leases_.emplace(found.lease.id, granted_lease{last, now.steady + config_.lease_ttl});
  return found;
}

/// `state_` is held.
segment_store::found_block segment_store::locate(uint32_t entry) {
  found_block found;
  if (!catalogue_.is_committed(entry)) return found;
  const catalogue::entry& e = catalogue_.at(entry);
  found.entry = entry;
  found.key = e.key;
  found.location = {e.segment, e.offset_units * location_unit};
  found.length = e.length;
  found.checksum = e.checksum;
  found.file = segments_.find(e.segment)->file;
  return found;
}

std::vector<block_place> segment_store::places(std::span<const block_key> keys) const {
  std::vector<block_place> found(keys.size());
  std::shared_lock state{state_};
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint32_t entry = catalogue_.find(keys[i]);
    if (!catalogue_.is_committed(entry)) continue;
    const catalogue::entry& e = catalogue_.at(entry);
    found[i] = {{e.segment, e.offset_units * location_unit}, e.length, e.checksum};
  }
  return found;
}

/// Each block into its span, which has its length; what does not fit its checksum is read again
/// once, since a flipped bit may be one of the way and not of the place.
void segment_store::read_blocks(std::span<const found_block> blocks,
                                std::span<const std::span<std::byte>> into,
                                std::span<read_status> statuses) {
  std::vector<size_t> left;
  for (size_t i = 0; i < blocks.size(); ++i) left.push_back(i);
  for (int attempt = 0; attempt < 2 && !left.empty(); ++attempt) {
    std::vector<file_operation> operations;
    for (const size_t i : left)
      operations.push_back({.what = file_operation::kind::read,
                            .file = blocks[i].file.get(),
                            .offset = blocks[i].location.offset,
                            .head = into[i]});
    std::vector<size_t> again;
    // each is verified while others are on their way
    const auto verify = [&](const file_operation& operation) {
      const size_t i = left[static_cast<size_t>(&operation - operations.data())];
      const bool answered = operation.result == file_operation::outcome::done;
      const bool whole = answered && operation.transferred == blocks[i].length;
      const bool good = whole && (blocks[i].check == read_check::by_reader ||
                                  block_checksum(blocks[i].key, into[i]) == blocks[i].checksum);
      if (good) {
        statuses[i] = read_status::ok;
        ++count_.read_blocks;
        count_.read_bytes += blocks[i].length;
      } else {
        statuses[i] = answered ? read_status::bad : read_status::failed;
        again.push_back(i);
      }
    };
    files_->run(operations, {.ended = verify});
    left = std::move(again);
  }
  for (const size_t i : left) {
    ++count_.read_failures;
    std::fill(into[i].begin(), into[i].end(), std::byte{0});  // nobody uses it by mistake
  }
}

void segment_store::quarantine(std::span<const found_block> bad) {
  if (bad.empty()) return;
  static_cast<void>(change([&](catalogue_effects& effects, journal_batch&) {
    for (const found_block& block : bad) {
      const uint32_t entry = catalogue_.find(block.key);
      if (!catalogue_.is_committed(entry)) continue;
      const catalogue::entry& e = catalogue_.at(entry);
      // it may have been moved, or stored anew, since it was read
      if (e.segment != block.location.segment ||
          e.offset_units * location_unit != block.location.offset)
        continue;
      count_.quarantined += catalogue_.doom(entry, effects);
    }
  }));
}

result<std::vector<read_outcome>> segment_store::read(std::span<const read_item> items,
                                                      const lease_ref& lease,
                                                      const clock_reading& now) {
  if (items.size() > config_.max_batch)
    return failure{error_code::too_large, "too many blocks in one call: split it (max_batch)"};
  std::vector<read_outcome> answers(items.size());
  std::vector<found_block> blocks;
  std::vector<std::span<std::byte>> into;
  std::vector<size_t> places;
  {
    std::shared_lock state{state_};
    if (!valid(lease, now)) {
      for (read_outcome& answer : answers) answer.status = read_status::stale;
      return answers;
    }
    for (size_t i = 0; i < items.size(); ++i) {
      found_block found = locate(catalogue_.find(items[i].key));
      if (found.entry == catalogue::none) continue;
      answers[i].length = found.length;
      answers[i].checksum = found.checksum;
      if (items[i].into.size() < found.length) {
        answers[i].status = read_status::too_small;
        continue;
      }
      into.push_back(items[i].into.first(found.length));
      found.check = items[i].check;
      blocks.push_back(std::move(found));
      places.push_back(i);
    }
  }
  std::vector<read_status> statuses(blocks.size());
  read_blocks(blocks, into, statuses);
  std::vector<found_block> bad;
  for (size_t k = 0; k < blocks.size(); ++k) {
    answers[places[k]].status = statuses[k];
    if (statuses[k] == read_status::bad) bad.push_back(blocks[k]);
  }
  quarantine(bad);
  return answers;
}

}  // namespace deepinfer::storage
