#include "tests/actor/cache/held_site.hpp"

#include <algorithm>

namespace deepinfer {

using namespace std::chrono_literals;
using test::held_site;
using test::make_chain;
using test::store_site;
using wire::KvPutOutcome;
using wire::KvReadStatus;

namespace {

using opened = wire::msg<wire::KvOpened>;
using read_done_msg = wire::msg<wire::KvReadDone>;
using put_done_msg = wire::msg<wire::KvPutDone>;
using page = wire::msg<wire::KvSnapshotPage>;

template <class Answer>
error_code code_of(const test::actor_world::pending_answer<Answer>& answer) {
  REQUIRE(answer.ready());
  const auto got = answer.get();
  REQUIRE_FALSE(got);
  return got.error().code;
}

bool all_are(const test::actor_world::pending_answer<read_done_msg>& answer, KvReadStatus status) {
  REQUIRE(answer.ready());
  const auto got = answer.get();
  REQUIRE(got);
  const auto blocks = got->get().getBlocks();
  for (const auto block : blocks)
    if (block.getStatus() != status) return false;
  return blocks.size() > 0;
}

bool all_are(const test::actor_world::pending_answer<put_done_msg>& answer, KvPutOutcome outcome) {
  REQUIRE(answer.ready());
  const auto all = store_site::outcomes_of(answer.get());
  return !all.empty() &&
         std::count(all.begin(), all.end(), outcome) == static_cast<std::ptrdiff_t>(all.size());
}

}  // namespace

TEST_SUITE_BEGIN("actors/cache/kv_store");

TEST_CASE("an open that comes too late leaves no lease, whether it ran or waited") {
  held_site site;
  site.config.io_workers = 1;  // and one for the index
  site.open();
  const auto chain = make_chain("a", 1, 4);
  site.put(chain, 0, 4);
  site.held = true;
  std::vector<test::actor_world::pending_answer<opened>> all;
  for (int i = 0; i < 5; ++i)
    all.push_back(site.start<opened>(store_site::open_of(chain, 0, 4, 800ms)));
  REQUIRE(site.kept.size() == 2);  // the others wait
  CHECK(site.gauge("works_waiting") == 3);
  site.advance(799ms);
  for (const auto& one : all) CHECK_FALSE(one.ready());
  site.advance(2ms);
  for (const auto& one : all) CHECK(code_of(one) == error_code::deadline_exceeded);
  CHECK(site.gauge("works_skipped") == 3);
  CHECK(site.gauge("works_waiting") == 0);
  site.let_go();
  CHECK(site.gauge("opens_late") == 2);
  CHECK(site.gauge("leases") == 0);  // granted, and closed since nobody heard
  CHECK(site.opened(chain, 0, 4).get().getLease() != 0);
}

TEST_CASE("what is asked over a long purge has its turn between two parts of it") {
  held_site site;
  site.config.io_workers = 1;  // and one for the index
  site.config.store.purge_blocks = 2;
  site.open();
  const auto gone = make_chain("a", 1, 8), kept = make_chain("b", 1, 4);
  site.put(gone, 0, 8);
  site.put(kept, 0, 4);
  site.held = true;
  wire::draft<wire::KvPurge> order;
  order->setScope(static_cast<uint64_t>(gone.scope));
  const auto purged = site.start<wire::msg<wire::KvPurged>>(order.freeze());
  std::vector<test::actor_world::pending_answer<opened>> all;
  for (int i = 0; i < 3; ++i) all.push_back(site.start<opened>(store_site::open_of(kept, 0, 4)));
  uint32_t parts = 0;
  for (; !purged.ready(); ++parts) {
    REQUIRE_FALSE(site.kept.empty());
    site.let_one_go();
    site.run();
    if (parts < 4) CHECK_FALSE(purged.ready());
  }
  CHECK(parts >= 4 + 3);
  for (const auto& one : all) CHECK(one.ready());
  CHECK(purged.get()->get().getBlocks() == 8);
  CHECK(purged.get()->get().getBytes() == 8 * uint64_t{gone.length});
  site.let_go();
  CHECK(site.opened(gone, 0, 8).get().getBlocks() == 0);
  CHECK(site.opened(kept, 0, 4).get().getBlocks() == 4);
}

TEST_CASE("an open whose asker names no time ends by the store's own") {
  held_site site;
  site.config.longest_read = 3s;
  site.open();
  const auto chain = make_chain("a", 1, 1);
  site.held = true;
  const auto unsaid = site.start<opened>(store_site::open_of(chain, 0, 1));
  const auto long_one = site.start<opened>(store_site::open_of(chain, 0, 1, 1h));
  site.advance(2990ms);
  CHECK_FALSE(unsaid.ready());
  CHECK_FALSE(long_one.ready());
  site.advance(20ms);
  CHECK(code_of(unsaid) == error_code::deadline_exceeded);
  CHECK(code_of(long_one) == error_code::deadline_exceeded);
}

TEST_CASE("a read that comes too late gives its memory back, at once when it has not begun") {
  held_site site;
  site.config.io_workers = 1;
  site.open();
  const auto chain = make_chain("a", 1, 4);
  site.put(chain, 0, 4);
  const auto lease = site.opened(chain, 0, 4);
  site.held = true;
  std::vector<test::actor_world::pending_answer<read_done_msg>> all;
  for (int i = 0; i < 3; ++i)
    all.push_back(site.start<read_done_msg>(store_site::read_of(lease.get(), chain.keys, 2000ms)));
  REQUIRE(site.kept.size() == 1);
  CHECK(site.gauge("staged_bytes") == 3 * 4 * 1024);
  site.advance(2001ms);
  for (const auto& one : all) CHECK(all_are(one, KvReadStatus::FAILED));
  CHECK(site.gauge("reads_late") == 3);
  CHECK(site.gauge("staged_bytes") == 4 * 1024);  // the device may still write there
  site.let_go();
  CHECK(site.gauge("staged_bytes") == 0);
  CHECK(site.gauge("reads_open") == 0);
}

TEST_CASE("a write that waits too long reserves nothing, and its writer's memory is let go") {
  held_site site;
  site.config.io_workers = 1;
  site.open();
  const auto chain = make_chain("a", 1, 4);
  site.held = true;
  std::vector<test::actor_world::pending_answer<put_done_msg>> all;
  for (uint32_t i = 0; i < 4; ++i)
    all.push_back(
        site.start<put_done_msg>(site.put_of(make_chain("a", i, 2), 0, 2, {.deadline = 1500ms})));
  REQUIRE(site.kept.size() == 2);
  site.advance(1501ms);
  for (const auto& one : all) CHECK(all_are(one, KvPutOutcome::STALE));
  CHECK(site.released().size() == 2);  // of those that wait; the others have been begun
  site.let_go();
  CHECK(site.released().size() == 2);
  CHECK(site.gauge("puts_open") == 0);
  CHECK(site.gauge("reservations") == 0);
  CHECK(site.gauge("blocks") == 0);
}

TEST_CASE("a snapshot and a close that wait too long are not done") {
  held_site site;
  site.config.io_workers = 1;
  site.config.store.lease_ttl = 5s;
  site.open();
  const auto chain = make_chain("a", 1, 4);
  site.put(chain, 0, 4);
  const auto lease = site.opened(chain, 0, 4);
  site.held = true;
  wire::draft<wire::KvSnapshotQuery> question;
  question->setLimit(10);
  question->setDeadlineMs(1000);
  const auto query = question.freeze();
  std::vector<test::actor_world::pending_answer<page>> all;
  for (int i = 0; i < 3; ++i) all.push_back(site.start<page>(query));
  site.close(lease.get(), storage::use_kind::used);
  site.advance(1001ms);
  for (const auto& one : all) CHECK(code_of(one) == error_code::deadline_exceeded);
  CHECK(site.gauge("closes_dropped") == 0);
  site.advance(5s);
  CHECK(site.gauge("closes_dropped") == 1);
  site.let_go();
  CHECK(site.gauge("touched") == 0);
  REQUIRE(site.backing.store->expire(test::at(10s), 100));
  CHECK(site.gauge("leases") == 0);
}

TEST_CASE(
    "a device that hangs holds so many workers, then all is refused at once until it answers") {
  held_site site;
  site.config.io_workers = 2;
  site.config.stuck_after = 3s;
  site.folder = "/mnt/blocks";
  site.open();
  const auto chain = make_chain("a", 1, 4);
  site.put(chain, 0, 4);
  const auto lease = site.opened(chain, 0, 4);
  site.held = true;
  const auto read = [&] {
    return site.start<read_done_msg>(store_site::read_of(lease.get(), {chain.keys.data(), 1}, 20s));
  };
  const auto first = read(), second = read(), third = read();
  REQUIRE(site.kept.size() == 2);
  site.held = false;  // what does not wait for the device is done meanwhile
  CHECK(site.opened(chain, 0, 4).get().getBlocks() == 4);
  CHECK_FALSE(third.ready());
  site.advance(3600ms);
  CHECK(site.gauge("hung") == 2);
  CHECK(all_are(read(), KvReadStatus::FAILED));
  CHECK(all_are(site.start<put_done_msg>(site.put_of(make_chain("a", 9, 1), 0, 1)),
                KvPutOutcome::FAILED));
  const auto refused = site.start<opened>(store_site::open_of(chain, 0, 4));
  CHECK(code_of(refused) == error_code::unreachable);
  CHECK(refused.get().error().detail.find("/mnt/blocks") != std::string::npos);
  CHECK(site.logged("kvstore.hung") == 1);
  site.advance(17s);
  for (const auto* one : {&first, &second, &third}) CHECK(all_are(*one, KvReadStatus::FAILED));
  site.let_go();
  site.advance(500ms);
  CHECK(site.logged("kvstore.hung") == 1);
  CHECK(site.logged("kvstore.answers") == 1);
  CHECK(site.gauge("staged_bytes") == 0);
  CHECK(all_are(read(), KvReadStatus::OK));
}

TEST_SUITE_END();

}  // namespace deepinfer
