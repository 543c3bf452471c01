#include "storage/index/prefix_index.hpp"

#include "storage/memory/memory_store.hpp"
#include "tests/support/block_chain.hpp"
#include "tests/support/store_rules.hpp"

namespace deepinfer::storage {
namespace {

using namespace std::chrono_literals;

/// Keeps an index up to date as the actor of the CHECK duty does.
void follow(prefix_index& index, block_store& store, size_t page_blocks = 5) {
  for (int round = 0; round < 10; ++round) {
    const auto position = index.position();
    if (position.epoch != 0) {
      const auto batch = store.changes_after(position, 1'000);
      if (index.apply(batch)) {
        if (batch.changes.empty()) return;
        continue;
      }
    }
    index.begin_snapshot();
    uint64_t cursor = 0;
    do {
      const auto page = store.snapshot(cursor, page_blocks);
      index.add_page(page);
      cursor = page.next_cursor;
    } while (cursor != 0);
    index.end_snapshot();
  }
  FAIL("the index does not settle");
}

void check_equal(const prefix_index& index,
                 block_store& store,
                 const std::vector<test::block_chain>& chains,
                 const clock_reading& now) {
  CHECK(index.stats().blocks == store.stats().blocks);
  for (const auto& chain : chains) {
    const auto told = index.match(chain.query());
    const auto truth = store.match(chain.query(), lease_wish::none, now);
    REQUIRE(truth);
    CHECK(told.blocks == truth->blocks);
    if (told.blocks > 0) CHECK(told.expiry / 1s == truth->expiry / 1s);
  }
}

TEST_SUITE_BEGIN("storage/index");

TEST_CASE("an index that follows a store answers as the store does, through gaps and new lives") {
  auto config = test::small_store();
  config.feed_changes = 40;
  uint64_t gaps = 0, snapshots = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    test::rng random{seed};
    memory_medium medium{seed};
    auto store = *medium.open(config);
    prefix_index index;
    std::vector<test::block_chain> chains;
    for (uint64_t i = 0; i < 8; ++i) chains.push_back(test::make_chain("a", seed * 10 + i, 30));
    auto now = test::at(0s);
    for (int step = 0; step < 60; ++step) {
      now.steady += 1h;
      now.wall += 1h;
      const auto& chain = chains[random.below(8)];
      const uint32_t from = test::stored_blocks(*store, chain, now);
      switch (random.below(6)) {
        case 0:
          REQUIRE(store->expire(now, 50));
          break;
        case 1:
          static_cast<void>(store->touch(chain.keys[random.below(30)], traffic_class::chat, now));
          break;
        case 2:
          if (random.below(4) != 0) break;
          store.reset();
          store = *medium.open(config);
          break;
        default:
          test::chain_writer{*store, {1, 1}, traffic_class::agent}.put(
              chain, from, std::min(30u, from + 1 + random.below(10)), now);
      }
      if (random.below(3) != 0) continue;  // falls behind
      follow(index, *store);
      check_equal(index, *store, chains, now);
    }
    gaps += index.stats().gaps;
    snapshots += index.stats().snapshots;
  }
  CHECK(gaps > 10);
  CHECK(snapshots > gaps);
}

TEST_CASE("a missing change is a gap even if nobody says so") {
  memory_medium medium{1};
  auto store = *medium.open(test::small_store());
  prefix_index index;
  follow(index, *store);
  test::chain_writer{*store}.put(test::make_chain("a", 1, 5), 0, 5, test::at(0s));
  auto batch = store->changes_after(index.position(), 10);
  batch.changes.erase(batch.changes.begin() + 2);
  CHECK_FALSE(index.apply(batch));
  CHECK_FALSE(index.stats().complete);
  CHECK(index.position() == feed_position{});
  follow(index, *store);
  CHECK(index.stats().blocks == 5);
}

TEST_CASE("a hit is confirmed by the tokens of its last block and that one's parent") {
  memory_medium medium{1};
  auto store = *medium.open(test::small_store());
  const auto chain = test::make_chain("a", 1, 9);
  test::chain_writer{*store}.put(chain, 0, 9, test::at(0s));
  prefix_index index;
  follow(index, *store);
  CHECK(index.match(chain.query()).blocks == 9);
  for (const uint32_t damaged : {8u, 7u}) {
    auto forged = chain;
    forged.tokens[damaged * test::chain_tokens] += 1;
    CHECK(index.match(forged.query()).blocks == damaged);
  }
  CHECK(index.stats().hash_collisions == 2);
  CHECK(index.match({}).blocks == 0);
}

TEST_CASE("a block costs at most 100 bytes of an index") {
  constexpr uint64_t blocks = 200'000;  // just over a doubling of the table: the worst there is
  prefix_index index;
  index.begin_snapshot();
  snapshot_page page;
  page.position = {1, 1};
  test::rng random{1};
  for (uint64_t i = 0; i < blocks; ++i) {
    block_change c;
    c.key = {random.next(), random.next()};
    page.blocks.push_back(c);
  }
  index.add_page(page);
  index.end_snapshot();
  REQUIRE(index.stats().blocks == blocks);
  CHECK(index.stats().memory_bytes <= blocks * 100);
}

TEST_SUITE_END();

}  // namespace
}  // namespace deepinfer::storage
