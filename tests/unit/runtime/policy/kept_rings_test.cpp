#include "runtime/policy/kept_rings.hpp"

#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <vector>

namespace {

using namespace deepinfer::policy;
using deepinfer::storage::block_key;
using deepinfer::test::rng;
using std::chrono::minutes;
using std::chrono::seconds;

kept_ring a_ring(uint64_t key, uint64_t scope = 1) {
  return {{key, key}, 7, scope, 100};
}

std::vector<block_key> keys_of(const std::vector<kept_ring>& rings) {
  std::vector<block_key> keys;
  for (const auto& ring : rings) keys.push_back(ring.key);
  return keys;
}

}  // namespace

TEST_SUITE("runtime/policy") {
  TEST_CASE("rings are handed out to engines of their layout alone") {
    kept_rings rings{{}};
    const uint64_t number = rings.add(a_ring(1), {});
    CHECK_FALSE(rings.pull({1, 1}, 8, {}));
    CHECK_FALSE(rings.pull({1, 2}, 7, {}));
    const auto hold = rings.pull({1, 1}, 7, {});
    REQUIRE(hold);
    CHECK(hold->number == number);
    CHECK_FALSE(rings.renew({1, 1}, 8, {}));
    CHECK(rings.renew({1, 1}, 7, {}));
  }

  TEST_CASE("the longest unused goes first, and over the limit by itself") {
    kept_rings rings{{.most = 3}};
    for (uint64_t i = 1; i <= 3; ++i) rings.add(a_ring(i), {});
    REQUIRE(rings.renew({1, 1}, 7, {}));
    rings.add(a_ring(4), {});
    CHECK(keys_of(rings.all()) == std::vector<block_key>{{1, 1}, {3, 3}, {4, 4}});
    CHECK(rings.evict());
    CHECK(keys_of(rings.all()) == std::vector<block_key>{{1, 1}, {4, 4}});
    CHECK(rings.freed().size() == 2);
    CHECK(rings.bytes() == 200);
  }

  TEST_CASE("memory that somebody reads is free only when the reading is over") {
    kept_rings rings{{}};
    rings.set_hold(seconds{30});
    const uint64_t number = rings.add(a_ring(1), {});
    const auto one = rings.pull({1, 1}, 7, {});
    const auto two = rings.pull({1, 1}, 7, seconds{10});
    CHECK_FALSE(rings.evict());
    rings.add(a_ring(1), {});  // the same key again
    CHECK(rings.freed().empty());
    CHECK(rings.bytes() == 200);
    CHECK(rings.release(one->lease));
    CHECK_FALSE(rings.release(one->lease));
    CHECK(rings.freed().empty());
    rings.expire(seconds{39});
    CHECK(rings.freed().empty());
    rings.expire(seconds{40});
    CHECK(rings.freed() == std::vector<uint64_t>{number});
    CHECK_FALSE(rings.release(two->lease));
  }

  TEST_CASE("rings that nobody used for the set time go, a use begins it anew") {
    kept_rings rings{{.idle = minutes{15}}};
    rings.add(a_ring(1), {});
    rings.add(a_ring(2), {});
    REQUIRE(rings.renew({1, 1}, 7, minutes{10}));
    CHECK(rings.expire(minutes{15} - seconds{1}) == 0);
    CHECK(rings.expire(minutes{15}) == 1);
    CHECK(keys_of(rings.all()) == std::vector<block_key>{{1, 1}});
    CHECK(rings.expire(minutes{25}) == 1);
  }

  TEST_CASE("a purged scope is offered no more, also what is being read") {
    kept_rings rings{{}};
    rings.add(a_ring(1, 5), {});
    rings.add(a_ring(2, 6), {});
    const auto hold = rings.pull({1, 1}, 7, {});
    CHECK(rings.purge(5) == 1);
    CHECK_FALSE(rings.pull({1, 1}, 7, {}));
    CHECK(rings.freed().empty());
    CHECK(rings.release(hold->lease));
    CHECK(rings.freed().size() == 1);
    CHECK(rings.size() == 1);
  }

  TEST_CASE("random: followers of the news know what is there, memory is freed once") {
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      CAPTURE(seed);
      rng random(seed);
      const size_t most = 1 + random.below(6);
      kept_rings rings{{most, seconds{20}}};
      rings.set_hold(seconds{5});
      std::set<block_key> follower;
      std::set<uint64_t> live;                          // memory
      std::map<uint64_t, uint64_t> open;                // lease -> number
      std::map<uint64_t, seconds> ends;                 // lease -> when
      std::deque<std::pair<block_key, seconds>> order;  // naive LRU
      seconds now{};
      const auto used = [&](const block_key& key) {
        std::erase_if(order, [&](const auto& one) { return one.first == key; });
        order.emplace_back(key, now);
      };
      for (int step = 0; step < 400; ++step) {
        now += seconds{random.below(3)};
        const block_key key{1 + random.below(9), 1};
        const uint32_t what = random.below(10);
        if (what < 3) {
          if (rings.renew(key, 7, now)) {
            used(key);
          } else {
            live.insert(rings.add({key, 7, random.below(3), 10}, now));
            used(key);
            while (order.size() > most) order.pop_front();
          }
        } else if (what < 5) {
          if (const auto hold = rings.pull(key, 7, now)) {
            open[hold->lease] = hold->number;
            ends[hold->lease] = now + seconds{5};
            used(key);
          }
        } else if (what < 7 && !open.empty()) {
          const uint64_t lease = open.begin()->first;
          REQUIRE(rings.release(lease));
          open.erase(lease);
        } else if (what == 7) {
          rings.remove(key);
          std::erase_if(order, [&](const auto& one) { return one.first == key; });
        } else if (what == 8) {
          rings.expire(now);
          std::erase_if(order, [&](const auto& one) { return one.second + seconds{20} <= now; });
          std::erase_if(open, [&](const auto& one) { return ends.at(one.first) <= now; });
        } else {
          const ring_news news = rings.news();
          for (const auto& ring : news.added) follower.insert(ring.key);
          for (const auto& gone : news.removed) REQUIRE(follower.erase(gone) == 1);
          const auto all = keys_of(rings.all());
          REQUIRE(follower == std::set<block_key>(all.begin(), all.end()));
        }
        for (const uint64_t number : rings.freed()) {
          REQUIRE(live.erase(number) == 1);
          for (const auto& [lease, held] : open) REQUIRE(held != number);
        }
        std::set<block_key> expected;
        for (const auto& one : order) expected.insert(one.first);
        const auto all = keys_of(rings.all());
        REQUIRE(expected == std::set<block_key>(all.begin(), all.end()));
        REQUIRE(rings.bytes() == live.size() * 10);
        REQUIRE(rings.holds() == open.size());
      }
    }
  }
}
