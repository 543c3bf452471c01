#include "storage/catalog/catalogue.hpp"

#include "storage/catalog/clock_guard.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <map>

namespace deepinfer::storage {
namespace {

using namespace std::chrono_literals;

TEST_SUITE_BEGIN("storage/catalog");

TEST_CASE("a key table finds what a map finds, through growth and removal") {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    test::rng random{seed};
    std::vector<block_key> keys;
    // few homes, so that runs of slots get long and wrap around
    for (int i = 0; i < 400; ++i)
      keys.push_back({uint64_t{random.below(40)} * 0x0666666666666666u, random.next()});
    const auto key_at = [&keys](uint32_t id) -> const block_key& { return keys[id]; };
    std::map<block_key, uint32_t> model;
    key_table table;
    for (int step = 0; step < 4'000; ++step) {
      const uint32_t id = random.below(400);
      const bool there = model.contains(keys[id]);
      REQUIRE((table.find(keys[id], key_at) == id) == there);
      if (there) {
        table.erase(keys[id], key_at);
        model.erase(keys[id]);
      } else {
        table.insert(keys[id], id, key_at);
        model.emplace(keys[id], id);
      }
      REQUIRE(table.size() == model.size());
    }
    for (uint32_t id = 0; id < 400; ++id)
      CHECK((table.find(keys[id], key_at) == id) == model.contains(keys[id]));
  }
}

block_record record_at(const block_key& key, const block_key& parent, uint32_t depth) {
  block_record r;
  r.key = key;
  r.parent = parent;
  r.depth = depth;
  r.length = 100;
  r.location = {1, uint64_t{depth} * location_unit};
  r.state = block_state::committed;
  return r;
}

TEST_CASE("records of an earlier life are linked in any order, and orphans are dropped") {
  test::rng random{7};
  std::vector<block_record> records;
  for (uint64_t chain = 0; chain < 20; ++chain)
    for (uint32_t depth = 0; depth < 30; ++depth) {
      auto r = record_at({chain + 1, depth + 1}, {depth == 0 ? 99 : chain + 1, depth}, depth);
      r.expiry = cluster_time{1'000 - depth};
      r.classes = mask_of(traffic_class::chat);
      if (chain == 3 && depth == 10) continue;           // missing: what is behind it is lost
      if (chain == 4 && depth == 20) r.depth = 21;       // lies about its place
      if (chain == 5 && depth == 5) r.parent = {6, 30};  // hangs on another chain's end
      records.push_back(r);
    }
  for (size_t i = records.size(); i > 1; --i)
    std::swap(records[i - 1], records[random.below(static_cast<uint32_t>(i))]);
  catalogue all{store_config{}};
  for (const auto& r : records) all.load(r);
  const auto dropped = all.finish_loading();
  CHECK(dropped.erased.size() == 19 + 10 + 25);
  CHECK(dropped.freed.size() == dropped.erased.size());
  CHECK(all.committed() == records.size() - dropped.erased.size());
  CHECK(all.broken_rule() == std::nullopt);
  for (const auto& r : records) {
    const uint32_t id = all.find(r.key);
    if (id != catalogue::none) CHECK(all.record_of(id) == r);
  }
}

TEST_CASE("a block costs at most 150 bytes of memory in its store") {
  catalogue all{store_config{}};
  for (uint64_t i = 1; i <= 100'000; ++i) {
    auto r = record_at({i * 0x9E3779B97F4A7C15u, i * 0xBF58476D1CE4E5B9u}, {1, 1}, 0);
    r.expiry = cluster_time{static_cast<int64_t>(i % 64)};
    all.load(r);
  }
  CHECK(all.finish_loading().erased.empty());
  CHECK(all.memory_bytes() / 100'000 <= 150);
}

TEST_CASE("a clock that jumps does not move expiry, one that comes back does") {
  clock_guard clock{5min, 24h};
  clock.resume(1'000h);
  clock.observe({1'001h, 50h});
  CHECK_FALSE(clock.frozen());
  clock.observe({1'001h + 4min, 50h});  // a small step is believed
  CHECK_FALSE(clock.frozen());
  CHECK(clock.now() == 1'001h + 4min);
  clock.observe({1'100h, 50h + 1min});
  CHECK(clock.frozen());
  CHECK(clock.now() < 1'002h);
  clock.observe({1'001h + 6min, 50h + 2min});
  CHECK_FALSE(clock.frozen());
  clock.observe({900h, 50h + 3min});
  CHECK(clock.frozen());
  CHECK(clock.now() == 1'001h + 6min);
  clock.observe({1'002h, 51h});  // right again, as the steady clock says
  CHECK_FALSE(clock.frozen());
  CHECK(clock.now() == 1'002h);
  clock.observe({1'003h, 50h});  // a late reading of another thread
  CHECK(clock.now() == 1'002h);
}

TEST_CASE("a restart after a long time waits for an operator") {
  clock_guard clock{5min, 24h};
  clock.resume(1'000h);
  clock.observe({1'025h, 0h});
  CHECK(clock.frozen());
  CHECK(clock.now() == 1'000h);
  clock.acknowledge({1'025h, 0h});
  CHECK_FALSE(clock.frozen());
  CHECK(clock.now() == 1'025h);
  clock_guard back{5min, 24h};
  back.resume(1'000h);
  back.observe({999h, 0h});
  CHECK(back.frozen());
}

TEST_SUITE_END();

}  // namespace
}  // namespace deepinfer::storage
