#pragma once

#include "actors/cache/kv_check.hpp"
#include "actors/cache/kv_wire.hpp"
#include "storage/block/chain_hasher.hpp"
#include "tests/support/remote_world.hpp"

#include <caf/response_promise.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// Stores and hosts of rings that do for a kv_check as the test says.
namespace deepinfer::test {

inline constexpr uint32_t check_block_tokens = 128;
inline constexpr uint32_t check_group_blocks = 2;

/// Tokens and the keys of their blocks under a root.
struct known_prompt {
  std::vector<int32_t> tokens;
  std::vector<storage::block_key> keys;
};

inline known_prompt make_prompt(const storage::block_key& root, uint64_t seed, size_t blocks) {
  known_prompt made;
  rng random{seed};
  made.tokens.resize(blocks * check_block_tokens);
  for (auto& t : made.tokens) t = static_cast<int32_t>(random.below(1'000));
  storage::chain_hasher hasher{root, check_block_tokens};
  REQUIRE(hasher.append(made.tokens, {}, made.keys));
  return made;
}

/// What a store has and tells; the actor reads it, the test writes it.
struct feed_script {
  storage::block_key id{1, 1};
  uint64_t epoch = 1;
  uint64_t sequence = 0;
  std::vector<storage::block_change> blocks;  ///< stored now
  std::deque<storage::block_change> changes;  ///< since `first_change`
  size_t page_limit = 1'000;
  bool silent = false;  ///< keeps questions, as if their answers were late
  uint32_t infos = 0, pages = 0, polls = 0;
  /// Of questions asked in silence; KvReportBad has the oldest one answered after all.
  std::deque<caf::typed_response_promise<wire::msg<wire::KvChanges>>> late_changes;
  std::deque<caf::typed_response_promise<wire::msg<wire::KvSnapshotPage>>> late_pages;
  std::deque<wire::msg<wire::KvChangesQuery>> late_queries;

  void put(const known_prompt& prompt, uint32_t from, uint32_t to) {
    for (uint32_t b = from; b < to; ++b) {
      const auto part =
          std::span{prompt.tokens}.subspan(size_t{b} * check_block_tokens, check_block_tokens);
      storage::block_change change;
      change.sequence = ++sequence;
      change.key = prompt.keys[b];
      change.depth = b;
      change.content_digest = storage::content_digest(storage::content_of(part, b, {}));
      blocks.push_back(change);
      changes.push_back(change);
    }
  }
  void remove(const storage::block_key& key) {
    std::erase_if(blocks, [&](const auto& b) { return b.key == key; });
    storage::block_change change;
    change.sequence = ++sequence;
    change.kind = storage::change_kind::removed;
    change.key = key;
    changes.push_back(change);
  }
};

inline wire::msg<wire::KvSnapshotPage> page_of(const feed_script& script,
                                               wire::KvSnapshotQuery::Reader query) {
  const size_t from = std::min<size_t>(query.getCursor(), script.blocks.size());
  const size_t most = std::min<size_t>(query.getLimit(), script.page_limit);
  const size_t to = std::min(script.blocks.size(), from + most);
  storage::snapshot_page page{
      {script.epoch, script.sequence}, to == script.blocks.size() ? 0 : to, {}};
  page.blocks.assign(script.blocks.begin() + static_cast<std::ptrdiff_t>(from),
                     script.blocks.begin() + static_cast<std::ptrdiff_t>(to));
  for (auto& block : page.blocks) block.sequence = 0;
  return to_wire(page);
}

inline wire::msg<wire::KvChanges> changes_of(const feed_script& script,
                                             wire::KvChangesQuery::Reader query) {
  storage::change_batch batch{false, {script.epoch, query.getSequence()}, {}};
  for (const auto& c : script.changes)
    if (c.sequence > query.getSequence() && batch.changes.size() < query.getLimit())
      batch.changes.push_back(c);
  const bool reaches =
      query.getSequence() == script.sequence ||
      (!batch.changes.empty() && batch.changes.front().sequence == query.getSequence() + 1);
  if (query.getEpoch() != script.epoch || !reaches) {
    batch = {};
    batch.gap = true;
    batch.next.epoch = script.epoch;
  } else if (!batch.changes.empty()) {
    batch.next.sequence = batch.changes.back().sequence;
  }
  return to_wire(batch);
}

inline kv_store_actor::behavior_type scripted_feed(kv_store_actor::pointer self,
                                                   const std::shared_ptr<feed_script>& script) {
  const auto unused = [](auto&&...) { return to_caf({error_code::unsupported, "scripted"}); };
  using wire::msg;
  return {
      [unused](const msg<wire::KvPut>&) -> caf::result<msg<wire::KvPutDone>> { return unused(); },
      [unused](const msg<wire::KvOpen>&) -> caf::result<msg<wire::KvOpened>> { return unused(); },
      [unused](const msg<wire::KvRead>&) -> caf::result<msg<wire::KvReadDone>> { return unused(); },
      [self, script](const msg<wire::KvChangesQuery>& m) -> caf::result<msg<wire::KvChanges>> {
        ++script->polls;
        if (!script->silent) return changes_of(*script, m.get());
        script->late_queries.push_back(m);
        return script->late_changes.emplace_back(
            self->make_response_promise<msg<wire::KvChanges>>());
      },
      [self,
       script](const msg<wire::KvSnapshotQuery>& m) -> caf::result<msg<wire::KvSnapshotPage>> {
        ++script->pages;
        if (!script->silent) return page_of(*script, m.get());
        return script->late_pages.emplace_back(
            self->make_response_promise<msg<wire::KvSnapshotPage>>());
      },
      [script](const msg<wire::KvInfoQuery>&) {
        ++script->infos;
        wire::draft<wire::KvInfo> out;
        out->initStore().setHi(script->id.hi);
        out->getStore().setLo(script->id.lo);
        out->setEpoch(script->epoch);
        out->setGroupBlocks(check_group_blocks);
        out->setCapacityBytes(1'000);
        return out.freeze();
      },
      [](const msg<wire::KvHave>&) { return msg<wire::KvHas>{}; },
      [unused](const msg<wire::KvPurge>&) -> caf::result<msg<wire::KvPurged>> { return unused(); },
      [unused](const msg<wire::KvClockAcknowledge>&) -> caf::result<msg<wire::Ack>> {
        return unused();
      },
      [](const msg<wire::KvRenew>&) {},
      [](const msg<wire::KvClose>&) {},
      [script](const msg<wire::KvReportBad>&) {
        REQUIRE_FALSE(script->late_changes.empty());
        script->late_changes.front().deliver(
            changes_of(*script, script->late_queries.front().get()));
        script->late_changes.pop_front();
        script->late_queries.pop_front();
      },
      [](const msg<wire::LeaseRelease>&) {},
      [](const msg<wire::Inspect>&) { return msg<wire::ActorInfo>{}; },
  };
}

inline ring_host_actor::behavior_type scripted_ring_host(
    ring_host_actor::pointer, const std::shared_ptr<std::vector<actor_ref>>& subscribers) {
  return {
      [](const wire::msg<wire::RingPull>&) -> caf::result<wire::msg<wire::RingReady>> {
        return to_caf({error_code::not_found, "scripted"});
      },
      [subscribers](const wire::msg<wire::RingSubscribe>& m) {
        subscribers->push_back(read_ref(m.get().getSubscriber()));
      },
      [](const wire::msg<wire::LeaseRelease>&) {},
      [](const wire::msg<wire::KvPurge>&) { return wire::msg<wire::KvPurged>{}; },
      [](const wire::msg<wire::Inspect>&) { return wire::msg<wire::ActorInfo>{}; },
  };
}

/// A service of the member table that the test writes.
struct told_service {
  std::string kind;
  actor_ref ref;
  std::string model;
  uint64_t layout = 0;
  wire::NodeState state = wire::NodeState::ALIVE;
};

inline wire::msg<wire::Members> members_of(const std::vector<told_service>& services) {
  wire::draft<wire::Members> out;
  out->initSelf().setHi(999);
  auto records = out->initRecords(static_cast<uint32_t>(services.size()));
  for (uint32_t i = 0; i < services.size(); ++i) {
    records[i].initId().setHi(i + 1);
    records[i].setState(services[i].state);
    auto service = records[i].initServices(1)[0];
    service.setKind(services[i].kind);
    service.setModel(services[i].model);
    service.setLayout(services[i].layout);
    write_ref(service.initActor(), services[i].ref);
  }
  return out.freeze();
}

}  // namespace deepinfer::test
