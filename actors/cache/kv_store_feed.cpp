// What a store tells of itself, and orders to it.
#include "actors/cache/kv_store_core.hpp"
#include "actors/messages/errors.hpp"

#include <algorithm>
#include <utility>

namespace deepinfer {

namespace {

/// Changes that come within it share an answer.
constexpr std::chrono::milliseconds feed_delay{5};
constexpr std::chrono::milliseconds longest_wait{60'000};
constexpr size_t max_purged_scopes = 4096;
constexpr size_t most_purges_waiting = 64;  // of one scope

}  // namespace

caf::typed_response_promise<wire::msg<wire::KvChanges>> kv_store_core::changes(
    wire::KvChangesQuery::Reader msg) {
  kv_store_state& state = self_->state;
  auto promise = self_->make_response_promise<wire::msg<wire::KvChanges>>();
  const storage::feed_position after{msg.getEpoch(), msg.getSequence()};
  const uint32_t limit = std::clamp(msg.getLimit(), 1u, state.setup.config.changes_per_answer);
  const auto batch = store().changes_after(after, limit);
  const bool news = batch.gap || !batch.changes.empty();
  if (news || msg.getWaitMs() == 0 || state.draining ||
      state.waiters.size() >= state.setup.config.max_waiters) {
    promise.deliver(to_wire(batch));
    return promise;
  }
  const uint64_t number = state.next_number++;
  state.waiters.emplace(number, change_waiter{after, limit, promise});
  late_after(number, std::min(std::chrono::milliseconds(msg.getWaitMs()), longest_wait));
  return promise;
}

/// Something may have changed; whoever waits hears of it soon, together with what else does.
void kv_store_core::changed() {
  kv_store_state& state = self_->state;
  if (state.waiters.empty() || state.feed_wakes) return;
  state.feed_wakes = true;
  self_->delayed_send(self_, feed_delay, feed_due{});
}

void kv_store_core::feed() {
  kv_store_state& state = self_->state;
  state.feed_wakes = false;
  for (auto at = state.waiters.begin(); at != state.waiters.end();) {
    const auto batch = store().changes_after(at->second.after, at->second.limit);
    if (!batch.gap && batch.changes.empty()) {
      ++at;
      continue;
    }
    at->second.promise.deliver(to_wire(batch));
    at = state.waiters.erase(at);
  }
}

caf::typed_response_promise<wire::msg<wire::KvSnapshotPage>> kv_store_core::snapshot(
    wire::KvSnapshotQuery::Reader msg) {
  kv_store_state& state = self_->state;
  auto promise = self_->make_response_promise<wire::msg<wire::KvSnapshotPage>>();
  const uint32_t limit = std::clamp(msg.getLimit(), 1u, state.setup.config.changes_per_answer);
  const auto page = std::make_shared<storage::snapshot_page>();
  // Copies of a promise do not know of each other's answers.
  const auto asker = std::make_shared<decltype(promise)>(promise);
  const auto too_late = [asker] {
    asker->deliver(to_caf({error_code::deadline_exceeded, "this store was too busy: ask again"}));
  };
  const bool taken =
      !state.draining &&
      submit({.run = [store = state.setup.backing.store, page, cursor = msg.getCursor(),
                      limit] { *page = store->snapshot(cursor, limit); },
              .then =
                  [page, asker] {
                    if (asker->pending()) asker->deliver(to_wire(*page));
                  },
              .late = too_late,
              .skipped = too_late,
              .within = asked_within(msg.getDeadlineMs())});
  if (!taken)
    promise.deliver(to_caf({error_code::no_capacity, "too many reads wait at this store"}));
  return promise;
}

wire::msg<wire::KvInfo> kv_store_core::info() const {
  const kv_store_state& state = self_->state;
  const kv_backing& backing = state.setup.backing;
  wire::draft<wire::KvInfo> out;
  out->initStore().setHi(backing.id.hi);
  out->getStore().setLo(backing.id.lo);
  out->setEpoch(store().epoch());
  out->setGroupBlocks(state.setup.config.store.group_blocks);
  out->setReplicas(backing.replicas);
  out->setCapacityBytes(backing.capacity_bytes);
  uint64_t longest = state.longest_block;
  if (longest == 0) {  // nothing written in this life yet: the mean, which is rounded up
    const auto stats = store().stats();
    if (stats.blocks > 0) longest = stats.live_bytes / stats.blocks;
  }
  out->setBlockBytesHint(longest);
  out->setClockFrozen(store().stats().clock_frozen);
  return out.freeze();
}

caf::result<wire::msg<wire::KvHas>> kv_store_core::have(wire::KvHave::Reader msg) {
  const auto keys = read_keys(msg.getKeys(), self_->state.setup.config.store.max_query_blocks);
  if (!keys) return to_caf(keys.error());
  const auto places = store().places(*keys);
  wire::draft<wire::KvHas> out;
  auto present = out->initPresent(static_cast<uint32_t>(places.size()));
  for (size_t i = 0; i < places.size(); ++i) present[i] = places[i].length > 0 ? 1 : 0;
  return out.freeze();
}

void purge_work::step(storage::block_store& store, const storage::clock_reading& now) {
  const auto part = store.purge_some(scope, cursor, now);
  if (!part) {
    failed = part.error();
    return;
  }
  removed.blocks += part->removed.blocks;
  removed.bytes += part->removed.bytes;
  cursor = part->next_cursor;
}

caf::typed_response_promise<wire::msg<wire::KvPurged>> kv_store_core::purge(
    wire::KvPurge::Reader msg) {
  kv_store_state& state = self_->state;
  auto promise = self_->make_response_promise<wire::msg<wire::KvPurged>>();
  std::erase_if(state.purged, [time = now()](const auto& item) { return item.second <= time; });
  if (state.purged.size() >= max_purged_scopes) {
    promise.deliver(
        to_caf({error_code::no_capacity, "too many tenants were purged just now: purge again"}));
    return promise;
  }
  const storage::scope_id scope{msg.getScope()};
  if (const auto open = state.purges.find(scope); open != state.purges.end()) {
    if (open->second.size() >= most_purges_waiting)
      promise.deliver(to_caf({error_code::no_capacity, "it is being purged: ask again later"}));
    else
      open->second.push_back(promise);
    return promise;
  }
  const auto work = std::make_shared<purge_work>();
  work->scope = scope;
  work->askers.push_back(promise);
  begin_purge(work);
  return promise;
}

void kv_store_core::begin_purge(const std::shared_ptr<purge_work>& work) {
  self_->state.card.count("purges");
  refuse_moved(work->scope);
  if (submit(purge_part_of(work))) {
    self_->state.purges.try_emplace(work->scope);
    return;
  }
  for (auto& asker : work->askers)
    asker.deliver(to_caf({error_code::no_capacity, "too many writes wait: purge again"}));
}

/// What left another store before that one was purged comes no later than this.
void kv_store_core::refuse_moved(storage::scope_id scope) {
  kv_store_state& state = self_->state;
  state.purged[static_cast<uint64_t>(scope)] = now() + state.setup.config.longest_put;
}

/// Done however late: who asks for it wants it done. Others have their turn between two parts.
queued_work kv_store_core::purge_part_of(const std::shared_ptr<purge_work>& work) {
  return {.run = [store = self_->state.setup.backing.store, work,
                  clocks = clocks()] { work->step(*store, clocks); },
          .then = [this_ = *this, work]() mutable { this_.purge_part_done(work); }};
}

void kv_store_core::purge_part_done(const std::shared_ptr<purge_work>& work) {
  if (!work->failed && work->cursor != 0) {
    changed();
    return enqueue(purge_part_of(work));
  }
  if (!work->failed) {
    refuse_moved(work->scope);
    self_->state.setup.backing.purges->note(work->scope);
  }
  for (auto& asker : work->askers) {
    if (work->failed) {
      asker.deliver(to_caf(*work->failed));
      continue;
    }
    wire::draft<wire::KvPurged> out;
    out->setBlocks(work->removed.blocks);
    out->setBytes(work->removed.bytes);
    asker.deliver(out.freeze());
  }
  changed();
  auto waiting = self_->state.purges.extract(work->scope);
  if (waiting.empty() || waiting.mapped().empty()) return;
  const auto next = std::make_shared<purge_work>();
  next->scope = work->scope;
  next->askers = std::move(waiting.mapped());
  begin_purge(next);
}

wire::msg<wire::Ack> kv_store_core::acknowledge_clock() {
  store().acknowledge_clock(clocks());
  self_->state.card.count("clock_acknowledged");
  return {};
}

}  // namespace deepinfer
