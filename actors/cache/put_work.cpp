#include "actors/cache/put_work.hpp"

#include "runtime/base/digest.hpp"
#include "storage/catalog/catalogue.hpp"

#include <algorithm>
#include <string>
#include <unordered_set>

namespace deepinfer {

using storage::block_key;
using storage::ticket_id;
using wire::KvPutOutcome;

namespace {

KvPutOutcome outcome_of(storage::reserve_outcome outcome) {
  switch (outcome) {
    case storage::reserve_outcome::no_parent:
      return KvPutOutcome::NO_PARENT;
    case storage::reserve_outcome::over_quota:
      return KvPutOutcome::OVER_QUOTA;
    case storage::reserve_outcome::full:
      return KvPutOutcome::FULL;
    default:
      return KvPutOutcome::BUSY;  // granted and present ones are decided later
  }
}

KvPutOutcome outcome_of(storage::write_outcome outcome) {
  switch (outcome) {
    case storage::write_outcome::stale:
      return KvPutOutcome::STALE;
    case storage::write_outcome::full:
      return KvPutOutcome::FULL;
    default:
      return KvPutOutcome::FAILED;
  }
}

KvPutOutcome outcome_of(storage::commit_outcome outcome) {
  switch (outcome) {
    case storage::commit_outcome::stored:
      return KvPutOutcome::STORED;
    case storage::commit_outcome::refreshed:
      return KvPutOutcome::REFRESHED;
    case storage::commit_outcome::diverged:
      return KvPutOutcome::DIVERGED;
    case storage::commit_outcome::no_parent:
      return KvPutOutcome::NO_PARENT;
    case storage::commit_outcome::mismatch:
      return KvPutOutcome::CORRUPT;
    case storage::commit_outcome::stale:
      return KvPutOutcome::STALE;
  }
  return KvPutOutcome::FAILED;
}

result<void> check_block(wire::BlockWrite::Reader block) {
  const uint64_t length = block.getBytes().getLength();
  if (length == 0 || length > storage::max_block_bytes)
    return failure{error_code::too_large, "a block of " + std::to_string(length) +
                                              " bytes; blocks have 1 to " +
                                              std::to_string(storage::max_block_bytes)};
  if (block.getContent().size() == 0 || block.getContent().size() > storage::max_content_bytes)
    return failure{error_code::invalid_argument, "a block without content, or with too much"};
  return {};
}

}  // namespace

namespace {

/// Blocks may be left out (they are stored, or lost); what follows one another is its child.
result<void> check_order(std::span<const storage::reserve_item> items, uint32_t group_blocks) {
  const auto group_of = [group_blocks](const storage::reserve_item& item) {
    return group_blocks == 0 ? 0 : item.depth / group_blocks;
  };
  for (size_t i = 1; i < items.size(); ++i) {
    const storage::reserve_item &last = items[i - 1], &next = items[i];
    if (group_of(last) != group_of(next))
      return failure{error_code::invalid_argument,
                     "a write has blocks of one group; these are at depths " +
                         std::to_string(last.depth) + " and " + std::to_string(next.depth) +
                         " of groups of " + std::to_string(group_blocks) +
                         ": split it, and set kvstore.group_blocks equal on all nodes"};
    if (next.depth <= last.depth || (next.depth == last.depth + 1 && next.parent != last.key))
      return failure{error_code::invalid_argument,
                     "a write has blocks of one chain, parents first; split it"};
  }
  return {};
}

}  // namespace

uint64_t put_work::granted_bytes() const {
  uint64_t sum = 0;
  for (size_t i = 0; i < reserved.size(); ++i)
    if (granted(i)) sum += items[i].length;
  return sum;
}

bool put_work::found_full() const {
  for (size_t i = 0; i < reserved.size(); ++i)  // a block that moves is kept where it comes from
    if (reserved[i].outcome == storage::reserve_outcome::full &&
        items[i].expiry == storage::cluster_time{})
      return true;
  return false;
}

result<std::shared_ptr<put_work>> read_put(const wire::msg<wire::KvPut>& message,
                                           const put_limits& limits) {
  const auto in = message.get();
  const auto blocks = in.getBlocks();
  if (blocks.size() == 0) return failure{error_code::invalid_argument, "a write without blocks"};
  if (blocks.size() > limits.max_blocks)
    return failure{error_code::too_large,
                   std::to_string(blocks.size()) + " blocks in one write; at most " +
                       std::to_string(limits.max_blocks) + " are taken: split it"};
  const auto traffic = read_traffic(in.getTraffic());
  if (!traffic) return traffic.error();
  auto work = std::make_shared<put_work>();
  work->message = message;
  work->context.scope = storage::scope_id{in.getScope()};
  work->context.writer = {in.getWriter(), in.getWriterEpoch()};
  work->context.use = *traffic;
  work->source_node = {in.getLease().getNode().getHi(), in.getLease().getNode().getLo()};
  uint64_t bytes = 0;
  for (const auto block : blocks) {
    if (const auto good = check_block(block); !good) return good.error();
    const auto content = block.getContent();
    const auto ref = block.getBytes();
    bytes += ref.getLength();
    work->items.push_back({read_block_key(block.getKey()),
                           read_block_key(block.getParent()),
                           block.getDepth(),
                           static_cast<uint32_t>(ref.getLength()),
                           {reinterpret_cast<const std::byte*>(content.begin()), content.size()},
                           storage::cluster_time{static_cast<int64_t>(block.getExpiryMs())}});
    work->sources.push_back({ref.getRegion(), ref.getOffset(), ref.getDigestHi(), ref.getDigestLo(),
                             block.getChecksum()});
  }
  if (const auto one = check_order(work->items, limits.group_blocks); !one) return one.error();
  if (bytes > limits.max_bytes)
    return failure{error_code::too_large, std::to_string(bytes) + " bytes in one write; at most " +
                                              std::to_string(limits.max_bytes) +
                                              " are taken: split it (kvstore.pull_bytes)"};
  work->outcomes.assign(blocks.size(), KvPutOutcome::BUSY);
  work->bytes.resize(blocks.size());
  work->pulls.resize(blocks.size());
  return work;
}

void reserve_put(storage::block_store& store, put_work& work) {
  auto reserved = store.reserve(work.context, work.items);
  if (!reserved) {
    work.refusal = reserved.error();
    return;
  }
  work.reserved = *std::move(reserved);
  for (size_t i = 0; i < work.reserved.size(); ++i)
    work.outcomes[i] = outcome_of(work.reserved[i].outcome);
}

void relieve_put(storage::block_store& store, put_work& work, const storage::clock_reading& now) {
  work.relieved = true;
  std::vector<size_t> places;
  std::vector<storage::reserve_item> again;
  uint64_t bytes = 0;
  for (size_t i = 0; i < work.items.size(); ++i) {
    const auto outcome = work.reserved[i].outcome;
    // behind a block that found no room its children have no parent
    if (outcome != storage::reserve_outcome::full && outcome != storage::reserve_outcome::no_parent)
      continue;
    places.push_back(i);
    again.push_back(work.items[i]);
    bytes += storage::stride_of(work.items[i].length);
  }
  if (!store.make_room(bytes, now)) return;
  const auto reserved = store.reserve(work.context, again);
  if (!reserved) return;
  for (size_t k = 0; k < places.size(); ++k) {
    work.reserved[places[k]] = (*reserved)[k];
    work.outcomes[places[k]] = outcome_of((*reserved)[k].outcome);
  }
}

void abandon_put(storage::block_store& store, const put_work& work) {
  std::vector<ticket_id> tickets;
  for (const auto& one : work.reserved)
    if (one.ticket != ticket_id{}) tickets.push_back(one.ticket);
  if (!tickets.empty()) store.abandon(tickets);
}

namespace {

/// Which blocks may be written: pulled whole, and not behind one of this put that failed.
std::vector<bool> verify_pulled(put_work& work) {
  std::vector<bool> good(work.items.size(), false);
  std::unordered_set<block_key> lost;
  for (size_t i = 0; i < work.items.size(); ++i) {
    const bool present = work.reserved[i].outcome == storage::reserve_outcome::present;
    if (work.granted(i)) {
      const auto digest = digest_of(work.bytes[i]);
      if (lost.contains(work.items[i].parent))
        work.outcomes[i] = KvPutOutcome::NO_PARENT;
      else if (!work.pulls[i])
        work.outcomes[i] = KvPutOutcome::FAILED;
      else if (digest.hi != work.sources[i].digest_hi || digest.lo != work.sources[i].digest_lo)
        work.outcomes[i] = KvPutOutcome::CORRUPT;
      else
        good[i] = true;
    }
    if (!good[i] && !present) lost.insert(work.items[i].key);
  }
  return good;
}

/// Writes the good ones; those that the medium took stay good.
void write_good(storage::block_store& store,
                put_work& work,
                std::vector<bool>& good,
                const storage::clock_reading& now) {
  std::vector<storage::write_item> writes;
  std::vector<size_t> places;
  for (size_t i = 0; i < good.size(); ++i) {
    if (!good[i]) continue;
    writes.push_back({work.reserved[i].ticket, work.bytes[i]});
    places.push_back(i);
  }
  if (writes.empty()) return;
  const auto written = store.write(writes, now);
  for (size_t k = 0; k < places.size(); ++k) {
    if (written && (*written)[k] == storage::write_outcome::written) continue;
    good[places[k]] = false;
    work.outcomes[places[k]] = written ? outcome_of((*written)[k]) : KvPutOutcome::FAILED;
  }
}

}  // namespace

void finish_put(storage::block_store& store, put_work& work, const storage::clock_reading& now) {
  std::vector<bool> good = verify_pulled(work);
  write_good(store, work, good, now);
  std::vector<storage::commit_item> commits;
  std::vector<size_t> places;
  std::vector<ticket_id> dropped;
  for (size_t i = 0; i < work.items.size(); ++i) {
    const auto& one = work.reserved[i];
    if (one.ticket == ticket_id{}) continue;
    if (!good[i] && work.granted(i)) {
      dropped.push_back(one.ticket);
      continue;
    }
    commits.push_back({one.ticket, work.sources[i].checksum});
    places.push_back(i);
  }
  if (!dropped.empty()) store.abandon(dropped);
  if (commits.empty()) return;
  const auto done = store.commit(commits, now);
  for (size_t k = 0; k < places.size(); ++k)
    work.outcomes[places[k]] = done ? outcome_of((*done)[k]) : KvPutOutcome::FAILED;
}

wire::msg<wire::KvPutDone> put_done(std::span<const KvPutOutcome> outcomes) {
  wire::draft<wire::KvPutDone> out;
  auto list = out->initOutcomes(static_cast<uint32_t>(outcomes.size()));
  for (uint32_t i = 0; i < outcomes.size(); ++i) list.set(i, outcomes[i]);
  return out.freeze();
}

}  // namespace deepinfer
