#include "storage/memory/memory_store.hpp"

#include "storage/memory/memory_files.hpp"
#include "storage/memory/memory_journal.hpp"
#include "storage/segment/segment_store.hpp"
#include "tests/support/block_chain.hpp"
#include "tests/support/store_rules.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

TEST_SUITE_BEGIN("storage/memory");

namespace deepinfer::storage {

TEST_CASE("the memory store keeps every rule of stores") {
  for (const auto& rule : test::store_rules()) {
    const std::string name = rule.name;
    CAPTURE(name);
    memory_medium medium{1};
    test::store_home home{[&medium](const store_config& config) { return medium.open(config); }};
    rule.check(home);
  }
}

using namespace std::chrono_literals;

TEST_CASE("blocks whose rewriting fails stay where they are") {
  memory_medium medium{1};
  auto store = *medium.open(test::small_store());
  const auto gone = test::make_chain("a", 1, 30), kept = test::make_chain("b", 1, 30);
  for (uint32_t i = 0; i < 30; ++i)
    for (const auto* chain : {&gone, &kept})
      test::chain_writer{*store}.put(*chain, i, i + 1, test::at(0s));
  REQUIRE(store->purge(gone.scope, test::at(0s)));
  for (auto fault : {&fault_plan::chances::failed_write, &fault_plan::chances::full_disk}) {
    fault_plan::chances all;
    all.*fault = 65'536;
    medium.faults().set(all);
    static_cast<void>(store->compact(1 << 20, test::at(0s)));
    medium.faults().set({});
    CHECK(test::read_back(*store, kept, 30, test::at(0s)) == 30);
    CHECK(store->stats().quarantined == 0);
  }
  CHECK(*store->compact(1 << 20, test::at(0s)) > 0);
  CHECK(test::read_back(*store, kept, 30, test::at(0s)) == 30);
}

TEST_CASE("a bit that flips on the way to a reader costs a second read, not the block") {
  memory_medium medium{3};
  auto store = *medium.open(test::small_store());
  const auto chain = test::make_chain("a", 1, 50);
  test::chain_writer{*store}.put(chain, 0, 50, test::at(0s));
  medium.faults().set({.flipped_read = 1'500});
  uint32_t good = 0;
  for (int i = 0; i < 10; ++i) good += test::read_back(*store, chain, 50, test::at(0s));
  CHECK(medium.faults().faults() > 5);
  CHECK(good == 500);
  CHECK(store->stats().quarantined == 0);
}

TEST_CASE("a medium that does not answer loses no block") {
  memory_medium medium{3};
  auto store = *medium.open(test::small_store());
  const auto chain = test::make_chain("a", 1, 50);
  test::chain_writer{*store}.put(chain, 0, 50, test::at(0s));
  medium.faults().set({.failed_read = 65'536});
  CHECK(test::read_back(*store, chain, 50, test::at(0s)) == 0);
  medium.faults().set({});
  CHECK(test::read_back(*store, chain, 50, test::at(0s)) == 50);
}

TEST_CASE("a full disk refuses bytes and keeps what is there") {
  memory_medium medium{3};
  auto store = *medium.open(test::small_store());
  const auto chain = test::make_chain("a", 1, 50);
  test::chain_writer{*store}.put(chain, 0, 20, test::at(0s));
  medium.faults().set({.full_disk = 65'536});
  CHECK(test::chain_writer{*store}.put(chain, 20, 50, test::at(0s)) == 0);
  CHECK(store->stats().reservations == 0);
  CHECK(test::read_back(*store, chain, 20, test::at(0s)) == 20);
  medium.faults().set({});
  CHECK(test::chain_writer{*store}.put(chain, 20, 50, test::at(0s)) == 30);
}

TEST_CASE("while the journal fails reads go on, and writes when it works again") {
  memory_medium medium{3};
  auto store = *medium.open(test::small_store());
  const auto chain = test::make_chain("a", 1, 20);
  test::chain_writer{*store}.put(chain, 0, 10, test::at(0s));
  medium.faults().crash_after(0);
  CHECK_FALSE(store->touch(chain.keys[9], traffic_class::chat, test::at(100h)));
  CHECK(store->purge(chain.scope, test::at(1s)).error().code == error_code::unreachable);
  CHECK(store->stats().broken);
  CHECK(store->stats().blocks == 10);  // a step that cannot be kept is not begun
  medium.faults().recover();
  CHECK(test::read_back(*store, chain, 10, test::at(1s)) == 10);
  CHECK(test::chain_writer{*store}.put(chain, 10, 20, test::at(1s)) == 10);
  CHECK_FALSE(store->stats().broken);
  // what was refused at first has been written: the chain lives as long as its touch says
  store.reset();
  store = *medium.open(test::small_store());
  CHECK(store->stats().lost_at_open == 0);
  const auto match = *store->match(chain.query(), lease_wish::none, test::at(100h));
  CHECK(match.blocks == 20);
  CHECK(store
            ->match({std::span{chain.keys}.first(10), std::span{chain.tokens}.first(160), {}},
                    lease_wish::none, test::at(100h))
            ->expiry >= test::at(100h).wall + test::small_store().ttl_chat);
}

TEST_CASE("whenever a crash comes over a purge, all of its scope is there or nothing") {
  uint64_t none_gone = 0, all_gone = 0;
  for (uint64_t steps = 0; steps < 24; ++steps) {
    CAPTURE(steps);
    memory_medium medium{steps};
    auto config = test::small_store();
    config.purge_blocks = 3;
    const auto gone = test::make_chain("a", 1, 20), kept = test::make_chain("b", 1, 20);
    {
      auto store = *medium.open(config);
      for (uint32_t i = 0; i < 20; ++i)
        for (const auto* chain : {&gone, &kept})
          test::chain_writer{*store}.put(*chain, i, i + 1, test::at(0s));
      REQUIRE(store->flush());
      medium.faults().crash_after(steps);
      static_cast<void>(store->purge(gone.scope, test::at(1s)));
    }
    steps % 2 == 0 ? medium.process_died() : medium.power_lost();
    auto store = *medium.open(config);
    const uint32_t left = test::stored_blocks(*store, gone, test::at(2s));
    CHECK((left == 0 || left == 20));
    ++(left == 0 ? all_gone : none_gone);
    CHECK(store->stats().blocks == 20 + left);
    CHECK(test::read_back(*store, kept, 20, test::at(2s)) == 20);
    // and if a second crash comes over finishing it
    if (left == 20) continue;
    store.reset();
    CHECK(test::stored_blocks(**medium.open(config), gone, test::at(2s)) == 0);
  }
  CHECK(none_gone > 0);
  CHECK(all_gone > 10);
}

TEST_CASE("a crash over finishing a purge leaves the rest to the life after") {
  memory_medium medium{1};
  auto config = test::small_store();
  config.purge_blocks = 2;
  const auto gone = test::make_chain("a", 1, 40);
  {
    auto store = *medium.open(config);
    REQUIRE(test::chain_writer{*store}.put(gone, 0, 40, test::at(0s)) == 40);
    REQUIRE(store->purge_some(gone.scope, 0, test::at(1s))->next_cursor != 0);
  }
  for (const uint64_t steps : {2, 4, 7}) {
    medium.process_died();
    medium.faults().crash_after(steps);
    CHECK_FALSE(medium.open(config));  // no half of it is ever offered
  }
  medium.process_died();
  auto store = *medium.open(config);
  CHECK(store->stats().blocks == 0);
}

TEST_CASE("erasing goes part by part, and what is purged meanwhile has a round of its own") {
  struct parted_journal : memory_journal {
    using memory_journal::memory_journal;
    std::vector<uint64_t> asked;
    result<uint64_t> drop_erased(uint64_t cursor) override {
      asked.push_back(cursor);
      return cursor == 3 ? 0 : cursor + 1;
    }
  };
  const auto plan = std::make_shared<fault_plan>(1);
  auto made = std::make_unique<parted_journal>(plan);
  parted_journal& journal = *made;
  auto store = *segment_store::open(test::small_store(), std::make_unique<memory_files>(plan),
                                    std::move(made));
  const auto chain = test::make_chain("a", 1, 4);
  REQUIRE(test::chain_writer{*store}.put(chain, 0, 4, test::at(0s)) == 4);
  const auto upkeep = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) REQUIRE(store->compact(1 << 20, test::at(1s)));
  };
  const auto due = [&journal] {
    const auto found = journal.load([](const block_record&) {});
    return std::count(found->rewrite_due.begin(), found->rewrite_due.end(), erased_mark) == 1;
  };
  upkeep(2);
  CHECK(journal.asked.empty());
  REQUIRE(store->purge(chain.scope, test::at(1s)));
  upkeep(2);
  CHECK(journal.asked == std::vector<uint64_t>{0, 1});  // one part each
  REQUIRE(store->purge(chain.scope, test::at(1s)));
  upkeep(2);
  CHECK(journal.asked == std::vector<uint64_t>{0, 1, 2, 3});
  CHECK(due());  // the second purge came when part 0 was done
  upkeep(10);
  CHECK(journal.asked == std::vector<uint64_t>{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK_FALSE(due());
}

namespace {

/// Files in front of whose next write something happens, and which may be looked through.
struct watched_files : memory_files {
  using memory_files::memory_files;
  std::function<void()> before_write;

  using file_layer::run;
  void run(std::span<file_operation> operations, const operation_hooks& hooks) override {
    const bool writes = std::any_of(operations.begin(), operations.end(), [](const auto& one) {
      return one.what == file_operation::kind::write && one.head.size() == 1000;
    });
    if (writes && before_write) std::exchange(before_write, nullptr)();
    memory_files::run(operations, hooks);
  }

  [[nodiscard]] uint32_t found(const test::block_chain& chain) {
    uint32_t count = 0;
    for (const block_key& key : chain.keys) {
      const auto wanted = test::bytes_of(key, chain.length);
      const auto listed = list();
      const auto holds = [&](const listed_file& one) {
        const auto file = *open(one.name);
        std::vector<std::byte> bytes(one.bytes);
        file_operation read{.file = file.get(), .head = bytes};
        memory_files::run({&read, 1}, {});
        return !std::ranges::search(bytes, wanted).empty();
      };
      count += std::any_of(listed->begin(), listed->end(), holds) ? 1 : 0;
    }
    return count;
  }
};

struct watched_store {
  explicit watched_store(const store_config& config) {
    auto made = std::make_unique<watched_files>(plan);
    files = made.get();
    store = *segment_store::open(config, std::move(made), std::make_unique<memory_journal>(plan));
  }
  void upkeep(int rounds) {
    for (int i = 0; i < rounds; ++i) REQUIRE(store->compact(1 << 20, test::at(1s)));
  }

  std::shared_ptr<fault_plan> plan = std::make_shared<fault_plan>(1);
  watched_files* files = nullptr;
  std::unique_ptr<block_store> store;
};

}  // namespace

TEST_CASE("bytes that a rewrite moves while their scope is purged leave the files, too") {
  auto config = test::small_store();
  config.purge_blocks = 3;
  watched_store site{config};
  const auto gone = test::make_chain("a", 1, 9), kept = test::make_chain("b", 2, 5);
  REQUIRE(test::chain_writer{*site.store}.put(kept, 0, 5, test::at(0s)) == 5);
  REQUIRE(test::chain_writer{*site.store}.put(gone, 0, 9, test::at(0s)) == 9);
  const auto part = site.store->purge_some(gone.scope, 0, test::at(1s));
  REQUIRE(part->next_cursor != 0);  // their segment is due, six of them are still there
  bool ended = false;
  site.files->before_write = [&] {
    uint64_t cursor = part->next_cursor;
    while (cursor != 0)
      cursor = site.store->purge_some(gone.scope, cursor, test::at(1s))->next_cursor;
    ended = true;
  };
  site.upkeep(4);
  CHECK(ended);
  CHECK(site.files->found(gone) == 0);
  CHECK(site.files->found(kept) == 5);
  CHECK(test::read_back(*site.store, kept, 5, test::at(2s)) == 5);
}

TEST_CASE("bytes that were written and never committed leave the files with their scope") {
  watched_store site{test::small_store()};
  const auto gone = test::make_chain("a", 1, 1), kept = test::make_chain("b", 2, 5);
  REQUIRE(test::chain_writer{*site.store}.put(kept, 0, 5, test::at(0s)) == 5);
  const auto content = gone.content(0);
  const reserve_item item{gone.keys[0], gone.root, 0, gone.length, content};
  const auto got =
      site.store->reserve({gone.scope, {7, 1}, traffic_class::chat, test::at(0s)}, {&item, 1});
  REQUIRE(got);
  const auto bytes = test::bytes_of(gone.keys[0], gone.length);
  const write_item write{got->front().ticket, bytes};
  REQUIRE(site.store->write({&write, 1}, test::at(0s)));
  REQUIRE(site.files->found(gone) == 1);
  REQUIRE(site.store->purge(gone.scope, test::at(1s)));
  site.upkeep(3);
  CHECK(site.files->found(gone) == 0);
  CHECK(test::read_back(*site.store, kept, 5, test::at(2s)) == 5);
}

TEST_CASE("bytes whose blocks left before their scope was purged leave the files with it") {
  enum class way { abandoned, given_away };
  for (const way how : {way::abandoned, way::given_away}) {
    CAPTURE(static_cast<int>(how));
    watched_store site{test::small_store()};
    const auto gone = test::make_chain("a", 1, 3), kept = test::make_chain("b", 2, 9);
    REQUIRE(test::chain_writer{*site.store}.put(kept, 0, 9, test::at(0s)) == 9);
    if (how == way::abandoned) {
      const auto content = gone.content(0);
      const reserve_item item{gone.keys[0], gone.root, 0, gone.length, content};
      const auto got =
          site.store->reserve({gone.scope, {7, 1}, traffic_class::chat, test::at(0s)}, {&item, 1});
      const auto bytes = test::bytes_of(gone.keys[0], gone.length);
      const write_item write{got->front().ticket, bytes};
      REQUIRE(site.store->write({&write, 1}, test::at(0s)));
      site.store->abandon({&write.ticket, 1});
    } else {
      REQUIRE(test::chain_writer{*site.store}.put(gone, 0, 3, test::at(0s)) == 3);
      const std::vector<block_key> leaves_first(gone.keys.rbegin(), gone.keys.rend());
      REQUIRE(*site.store->give_away(leaves_first, test::at(0s)) == 3);
    }
    REQUIRE(site.files->found(gone) > 0);
    CHECK(site.store->purge(gone.scope, test::at(1s))->blocks == 0);
    site.upkeep(4);
    CHECK(site.files->found(gone) == 0);
    CHECK(test::read_back(*site.store, kept, 9, test::at(2s)) == 9);
  }
}

TEST_CASE("a purge that the journal stopped is ended by upkeep in the same life") {
  memory_medium medium{3};
  auto config = test::small_store();
  config.purge_blocks = 3;
  auto store = *medium.open(config);
  const auto gone = test::make_chain("a", 1, 20);
  REQUIRE(test::chain_writer{*store}.put(gone, 0, 20, test::at(0s)) == 20);
  const auto part = store->purge_some(gone.scope, 0, test::at(1s));
  REQUIRE(part->next_cursor != 0);
  medium.faults().crash_after(0);
  CHECK_FALSE(store->purge_some(gone.scope, part->next_cursor, test::at(1s)));
  medium.faults().recover();
  CHECK(store->stats().blocks > 0);
  REQUIRE(store->compact(1 << 20, test::at(2s)));
  CHECK(store->stats().blocks == 0);
}

TEST_CASE("no change is told before the journal has it") {
  memory_medium medium{3};
  auto store = *medium.open(test::small_store());
  const auto chain = test::make_chain("a", 1, 10);
  test::chain_writer{*store}.put(chain, 0, 5, test::at(0s));
  const auto before = store->changes_after({store->epoch(), 0}, 100).next;
  CHECK(before.sequence == 5);
  medium.faults().crash_after(0);
  CHECK_FALSE(store->touch(chain.keys[4], traffic_class::chat, test::at(100h)));
  CHECK(store->changes_after(before, 100).changes.empty());
  CHECK(store->snapshot(0, 1).position == before);
  medium.faults().recover();
  REQUIRE(store->expire(test::at(100h), 0));
  const auto after = store->changes_after(before, 100);
  CHECK_FALSE(after.gap);
  CHECK(after.changes.size() == 5);
}

}  // namespace deepinfer::storage

TEST_SUITE_END();
