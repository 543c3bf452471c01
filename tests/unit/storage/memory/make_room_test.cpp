#include "storage/memory/memory_store.hpp"
#include "storage/segment/segment_store.hpp"
#include "tests/support/block_chain.hpp"
#include "tests/support/store_rules.hpp"

#include <doctest/doctest.h>

namespace deepinfer::storage {

using namespace std::chrono_literals;

namespace {

/// A store of 64 files of 15 blocks, filled by chains of five until one finds no room.
struct full_store {
  full_store() {
    auto opened = medium.open(test::small_store());
    REQUIRE(opened);
    store = *std::move(opened);
    for (uint64_t seed = 0;; ++seed) {
      auto chain = test::make_chain("a", seed, 5);
      const auto then = test::at(3h * static_cast<int64_t>(seed));
      if (test::chain_writer{*store}.put(chain, 0, 5, then) < 5) break;
      chains.push_back(std::move(chain));
    }
    now = test::at(3h * static_cast<int64_t>(chains.size()));
  }
  [[nodiscard]] bool fits(uint64_t blocks) {
    const auto chain = test::make_chain("b", 7, static_cast<uint32_t>(blocks));
    return test::chain_writer{*store}.put(chain, 0, chain.size(), now) == blocks;
  }
  void check_sound() const {
    const auto broken = dynamic_cast<const segment_store&>(*store).broken_rule();
    CHECK_MESSAGE(!broken, broken.value_or(""));
  }

  memory_medium medium{3};
  std::unique_ptr<block_store> store;
  std::vector<test::block_chain> chains;
  clock_reading now;
};

}  // namespace

TEST_SUITE_BEGIN("storage/segment");

TEST_CASE("room is made for a write, of what ends first, and what is left comes back") {
  full_store full;
  REQUIRE_FALSE(full.fits(10));
  REQUIRE(full.store->make_room(10 * 4096, full.now));
  CHECK(full.fits(10));
  CHECK(test::stored_blocks(*full.store, full.chains.front(), full.now) == 0);
  CHECK(test::stored_blocks(*full.store, full.chains.back(), full.now) == 5);
  CHECK(test::read_back(*full.store, full.chains.back(), 5, full.now) == 5);
  CHECK(full.store->stats().file_bytes <= full.store->stats().capacity_bytes);
  full.check_sound();
}

TEST_CASE("blocks that are used all over the files leave room by rewriting them") {
  full_store full;
  for (size_t i = 0; i < full.chains.size(); i += 2)  // every other one is young again
    REQUIRE(full.store->touch(full.chains[i].keys.back(), traffic_class::chat,
                              {full.now.wall + 48h, full.now.steady + 48h}));
  full.now.wall += 48h;
  full.now.steady += 48h;
  REQUIRE(full.store->make_room(40 * 4096, full.now));
  CHECK(full.fits(40));
  CHECK(full.store->stats().compacted_bytes > 0);
  CHECK(test::stored_blocks(*full.store, full.chains[0], full.now) == 5);
  full.check_sound();
}

TEST_CASE("what is leased stays, also when nothing else could go") {
  full_store full;
  for (const auto& chain : full.chains)
    REQUIRE((*full.store->match(chain.query(), lease_wish::grant, full.now)).lease.id != 0);
  const auto before = full.store->stats().blocks;
  REQUIRE(full.store->make_room(10 * 4096, full.now));
  CHECK(full.store->stats().blocks == before);
  CHECK_FALSE(full.fits(10));
  full.check_sound();
}

TEST_CASE("a store that has room removes nothing when it is asked for some") {
  memory_medium medium{3};
  auto store = *medium.open(test::small_store());
  const auto chain = test::make_chain("a", 1, 5);
  REQUIRE(test::chain_writer{*store}.put(chain, 0, 5, test::at(0s)) == 5);
  CHECK(*store->make_room(1 << 20, test::at(1s)) == 0);
  CHECK(test::stored_blocks(*store, chain, test::at(1s)) == 5);
}

TEST_SUITE_END();

}  // namespace deepinfer::storage
