#include "tests/unit/actors/cache/fetch_world.hpp"

#include <doctest/doctest.h>

#include <utility>

/// How a fetch is cut into groups, each of which one store has.
using namespace deepinfer;
using namespace deepinfer::test;

TEST_SUITE("actors/cache") {
  TEST_CASE(
      "behind everybody's blocks groups and depths begin anew, and all of them hear of a use") {
    fetch_config config;
    fetch_world w{config};
    for (const uint64_t ticket : {1, 2}) {
      fetch::order o = order_of(ticket, 0, 9, 2s);
      o.cut = {group_blocks, 2};  // groups of 2, then 4 and 3
      o.groups.assign(3, {store_of(0), store_of(1)});
      w.submit(std::move(o));
    }
    REQUIRE(w.opens.size() == 3);  // both fetches need the same
    const std::vector<std::pair<size_t, uint32_t>> want{{2, 0}, {4, 0}, {3, 4}};
    for (size_t i = 0; i < 3; ++i) {
      CHECK(w.opens[i].keys.size() == want[i].first);
      CHECK(w.opens[i].first_depth == want[i].second);
    }
    CHECK(w.opens[1].keys[0] == key_of(0, 2));
    while (!w.opens.empty()) {
      const auto open = next(w.opens);
      w.say_opened(open, static_cast<uint32_t>(open.keys.size()));
    }
    while (!w.reads.empty()) w.finish(next(w.reads), outcome::ok);
    CHECK(w.answers.at({0, 1}).blocks.size() == 9);
    w.core.release({0, 2}, 0, w.now);
    w.core.release({0, 1}, 3, w.now);  // the first two groups are used, the third is not
    w.take();
    REQUIRE(w.closes.size() == 3);
    size_t used = 0;
    for (const auto& close : w.closes) used += close.use.kind == storage::use_kind::used;
    CHECK(used == 2);
    w.check_empty();
    // later, from memory: the stores are told again, of each group under its own depth
    w.advance(config.tell_use_every + 1s);
    fetch::order o = order_of(3, 0, 9, w.now + 1s);
    o.cut = {group_blocks, 2};
    o.groups.assign(3, {store_of(0), store_of(1)});
    w.submit(std::move(o));
    REQUIRE(w.answers.at({0, 3}).blocks.size() == 9);
    w.core.release({0, 3}, 9, w.now);
    w.take();
    REQUIRE(w.opens.size() == 3);
    for (size_t i = 0; i < 3; ++i) {
      CHECK(w.opens[i].keys.size() == want[i].first);
      CHECK(w.opens[i].first_depth == want[i].second);
    }
  }
}
