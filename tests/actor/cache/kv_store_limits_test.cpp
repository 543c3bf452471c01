#include "tests/actor/cache/held_site.hpp"

#include <algorithm>
#include <set>

namespace deepinfer {

using namespace std::chrono_literals;
using test::held_site;
using test::make_chain;
using test::put_options;
using test::store_site;
using wire::KvPutOutcome;
using wire::KvReadStatus;

namespace {

using changes = wire::msg<wire::KvChanges>;

wire::msg<wire::KvChangesQuery> changes_query(const storage::feed_position& after,
                                              std::chrono::milliseconds wait,
                                              uint32_t limit = 1000) {
  wire::draft<wire::KvChangesQuery> out;
  out->setEpoch(after.epoch);
  out->setSequence(after.sequence);
  out->setLimit(limit);
  out->setWaitMs(static_cast<uint32_t>(wait.count()));
  return out.freeze();
}

storage::change_batch batch_of(const result<changes>& got) {
  REQUIRE(got);
  auto batch = read_changes(got->get());
  REQUIRE(batch);
  return *std::move(batch);
}

}  // namespace

TEST_SUITE_BEGIN("actors/cache/kv_store");

TEST_CASE("more works than may wait are refused, and none of those that wait is lost") {
  held_site site;
  site.config.io_workers = 1;
  site.config.max_waiting_works = 3;
  site.open();
  const auto chain = make_chain("a", 1, 2);
  site.put(chain, 0, 2);
  site.held = true;
  std::vector<test::actor_world::pending_answer<wire::msg<wire::KvOpened>>> all;
  for (int i = 0; i < 6; ++i)
    all.push_back(site.start<wire::msg<wire::KvOpened>>(store_site::open_of(chain, 0, 2)));
  for (int i = 0; i < 5; ++i) CHECK_FALSE(all[i].ready());  // two begun, three wait
  REQUIRE(all[5].ready());
  CHECK(all[5].get().error().code == error_code::no_capacity);
  site.let_go();
  for (int i = 0; i < 5; ++i) CHECK(all[i].ready());
}

TEST_CASE("one write more than allowed is busy, and one read more finds no room") {
  held_site site;
  site.config.max_puts = 2;
  site.config.max_reads = 2;
  site.open();
  const auto chain = make_chain("a", 1, 2);
  site.put(chain, 0, 2);
  const auto lease = site.opened(chain, 0, 2);
  REQUIRE(site.released().size() == 1);
  site.held = true;
  std::vector<test::actor_world::pending_answer<wire::msg<wire::KvPutDone>>> puts;
  for (uint64_t i = 0; i < 3; ++i)
    puts.push_back(
        site.start<wire::msg<wire::KvPutDone>>(site.put_of(make_chain("a", 10 + i, 1), 0, 1)));
  CHECK_FALSE(puts[1].ready());
  REQUIRE(puts[2].ready());
  CHECK(store_site::outcomes_of(puts[2].get()) == std::vector{KvPutOutcome::BUSY});
  CHECK(site.released().size() == 1);
  std::vector<test::actor_world::pending_answer<wire::msg<wire::KvReadDone>>> reads;
  for (int i = 0; i < 3; ++i)
    reads.push_back(site.start<wire::msg<wire::KvReadDone>>(
        store_site::read_of(lease.get(), {chain.keys.data(), 1})));
  CHECK_FALSE(reads[1].ready());
  REQUIRE(reads[2].ready());
  CHECK(reads[2].get()->get().getBlocks()[0].getStatus() == KvReadStatus::NO_ROOM);
}

TEST_CASE("without a free lease a prefix is told and not kept") {
  store_site site;
  site.config.store.max_leases = 2;
  site.open();
  const auto chain = make_chain("a", 1, 2);
  site.put(chain, 0, 2);
  const auto first = site.opened(chain, 0, 2), second = site.opened(chain, 0, 2);
  CHECK(second.get().getLease() != 0);
  const auto third = site.opened(chain, 0, 2);
  CHECK(third.get().getBlocks() == 2);
  CHECK(third.get().getLease() == 0);
  site.close(first.get(), storage::use_kind::unused);
  CHECK(site.opened(chain, 0, 2).get().getLease() != 0);
}

TEST_CASE("a write of more than one group or chain is refused as a whole") {
  store_site site;
  site.open();  // groups of 8
  const auto chain = make_chain("a", 1, 12);
  const auto code = [&](const wire::msg<wire::KvPut>& put) {
    const auto got = site.net.ask<wire::msg<wire::KvPutDone>>(site.peer, site.store, put);
    REQUIRE_FALSE(got);
    return got.error().code;
  };
  CHECK(code(site.put_of(chain, 0, 9)) == error_code::invalid_argument);
  CHECK(code(site.put_of(chain, 7, 9)) == error_code::invalid_argument);
  auto mixed = make_chain("a", 1, 4);
  mixed.keys[2] = make_chain("a", 2, 4).keys[2];
  CHECK(code(site.put_of(mixed, 0, 4)) == error_code::invalid_argument);
  CHECK(site.gauge("blocks") == 0);
  CHECK(site.gauge("reservations") == 0);
  CHECK(site.released().size() == 3);
  CHECK(site.put(chain, 8, 12) == std::vector(4, KvPutOutcome::STORED));
}

TEST_CASE("a full store makes room when a write comes, without waiting for its upkeep") {
  store_site site;  // 8 MiB, and no kv_sweep
  site.open();
  for (uint64_t i = 0; i < 40; ++i) {
    const auto chain = make_chain("a", i, 8, 60 << 10);  // 40 times 512 KiB
    CHECK(site.put(chain, 0, 8) == std::vector(8, KvPutOutcome::STORED));
    for (const uint64_t lease : site.released())
      static_cast<void>(site.staging->leases().release(lease));
    site.advance(100ms);
  }
  CHECK(site.backing.store->stats().file_bytes <= 8 << 20);
  CHECK(site.gauge("puts_found_full") > 0);
  CHECK(site.logged("kvstore.full") == 0);
  CHECK(site.logged("kvstore.evicted_young") == 1);
}

TEST_CASE("a full store whose blocks are all leased refuses, and says so") {
  store_site site;
  site.open();
  std::vector<wire::msg<wire::KvOpened>> leases;
  size_t stored = 0;
  for (uint64_t i = 0; i < 20; ++i) {
    const auto chain = make_chain("a", i, 8, 60 << 10);
    const auto outcomes = site.put(chain, 0, 8);
    for (const uint64_t lease : site.released())
      static_cast<void>(site.staging->leases().release(lease));
    leases.push_back(site.opened(chain, 0, 8));
    stored +=
        static_cast<size_t>(std::count(outcomes.begin(), outcomes.end(), KvPutOutcome::STORED));
  }
  site.advance(600ms);
  CHECK(site.gauge("blocks") == static_cast<int64_t>(stored));
  CHECK(stored < 20 * 8);
  CHECK(site.logged("kvstore.full") == 1);
}

TEST_CASE("indexes that wait are so many; one more is answered at once") {
  store_site site;
  site.config.max_waiters = 2;
  site.open();
  const storage::feed_position now{site.backing.store->epoch(), 0};
  std::vector<test::actor_world::pending_answer<changes>> all;
  for (int i = 0; i < 3; ++i)
    all.push_back(site.peer.world.start_ask<changes>(site.store, changes_query(now, 10s)));
  site.run();
  CHECK_FALSE(all[0].ready());
  CHECK_FALSE(all[1].ready());
  REQUIRE(all[2].ready());
  CHECK(batch_of(all[2].get()).changes.empty());
  site.put(make_chain("a", 1, 2), 0, 2);
  site.advance(10ms);
  for (int i = 0; i < 2; ++i) CHECK(batch_of(all[i].get()).changes.size() == 2);
  CHECK(site.gauge("waiters") == 0);
}

TEST_CASE("an index waits as long as it asks, and a minute at most") {
  store_site site;
  site.open();
  const storage::feed_position now{site.backing.store->epoch(), 0};
  auto brief = site.peer.world.start_ask<changes>(site.store, changes_query(now, 2s));
  auto endless = site.peer.world.start_ask<changes>(site.store, changes_query(now, 10h));
  site.advance(1990ms);
  CHECK_FALSE(brief.ready());
  site.advance(20ms);
  CHECK(batch_of(brief.get()).changes.empty());
  CHECK_FALSE(batch_of(brief.get()).gap);
  site.advance(57s);
  CHECK_FALSE(endless.ready());
  site.advance(2s);
  CHECK(endless.ready());
}

TEST_CASE(
    "who is too far behind hears of a gap, and finds all of it in a snapshot and what follows") {
  store_site site;
  site.config.store.feed_changes = 4;
  site.config.changes_per_answer = 3;
  site.open();
  const storage::feed_position start{site.backing.store->epoch(), 0};
  std::set<storage::block_key> stored;
  for (uint64_t i = 0; i < 4; ++i) {
    const auto chain = make_chain("a", i, 2);
    site.put(chain, 0, 2);
    stored.insert(chain.keys.begin(), chain.keys.end());
  }
  const auto ask = [&](const storage::feed_position& at, uint32_t limit) {
    return batch_of(site.net.ask<changes>(site.peer, site.store, changes_query(at, 0ms, limit)));
  };
  CHECK(ask(start, 100).gap);
  CHECK(ask({start.epoch + 1, 0}, 100).gap);  // of a life that is not
  CHECK(ask({start.epoch, 1000}, 100).gap);   // from the future
  std::set<storage::block_key> found;
  storage::feed_position at{};
  uint64_t cursor = 0;
  do {
    wire::draft<wire::KvSnapshotQuery> question;
    question->setCursor(cursor);
    question->setLimit(100);
    const auto got =
        site.net.ask<wire::msg<wire::KvSnapshotPage>>(site.peer, site.store, question.freeze());
    REQUIRE(got);
    const auto read = read_page(got->get());
    REQUIRE(read);
    const storage::snapshot_page& page = *read;
    CHECK(page.blocks.size() <= 3);
    if (cursor == 0) at = page.position;
    for (const auto& block : page.blocks) found.insert(block.key);
    cursor = page.next_cursor;
    const auto more = make_chain("a", 100 + cursor, 1);  // the store goes on meanwhile
    if (cursor == 3 || cursor == 6) {
      site.put(more, 0, 1);
      stored.insert(more.keys[0]);
    }
  } while (cursor != 0);
  for (auto batch = ask(at, 100); !batch.changes.empty(); batch = ask(at, 100)) {
    REQUIRE_FALSE(batch.gap);
    CHECK(batch.changes.size() <= 3);
    for (const auto& change : batch.changes) found.insert(change.key);
    at = batch.next;
  }
  CHECK(found == stored);
}

TEST_CASE("what goes wrong in a store is in the log once a minute, with what to do") {
  store_site site;
  site.open();
  const auto chain = make_chain("a", 1, 8);
  site.put(chain, 0, 8);
  put_options other;
  other.wrong_checksum = true;
  site.put(chain, 0, 2, other);
  site.advance(600ms);
  CHECK(site.logged("kvstore.diverged") == 1);
  for (int i = 0; i < 20; ++i) site.put(chain, 0, 2, other);
  site.advance(50s);
  CHECK(site.logged("kvstore.diverged") == 1);
  site.advance(20s);
  CHECK(site.logged("kvstore.diverged") == 2);
  site.medium.faults().set({.failed_read = 65'536});
  const auto lease = site.opened(chain, 0, 8);
  site.read(lease.get(), chain.keys);
  site.medium.faults().set({});
  site.advance(600ms);
  CHECK(site.logged("kvstore.read_failed") == 1);
  site.medium.faults().crash_after(0);  // every effect fails from now on
  site.put(make_chain("a", 3, 1), 0, 1, {.writer = {77, 1}});
  site.advance(600ms);
  CHECK(site.logged("kvstore.journal_broken") == 1);
  site.medium.faults().recover();
  site.put(make_chain("a", 4, 1), 0, 1, {.writer = {78, 1}});
  site.advance(600ms);
  CHECK(site.logged("kvstore.journal_mended") == 1);
  CHECK(site.log->tail(1).front().find("folder=memory") != std::string::npos);
}

TEST_SUITE_END();

}  // namespace deepinfer
