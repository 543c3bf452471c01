#include "storage/arena/span_pool.hpp"

#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <map>

using namespace deepinfer;
using storage::span_pool;

TEST_SUITE("storage/arena") {
  TEST_CASE("spans never overlap, and what comes back in pieces becomes one span again") {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(seed);
      test::rng random{seed};
      const uint64_t begin = 4096, end = begin + 64 * 1024;
      span_pool pool{begin, end};
      std::map<uint64_t, uint64_t> taken;
      uint64_t taken_bytes = 0;
      for (int step = 0; step < 2000; ++step) {
        if (random.below(5) < 3) {
          const uint64_t bytes = 1 + random.below(3000);
          const bool fits = pool.longest_free() >= span_pool::rounded(bytes);
          const auto at = pool.take(bytes);
          REQUIRE(bool(at) == fits);
          if (!at) continue;
          const uint64_t length = span_pool::rounded(bytes);
          REQUIRE(*at >= begin);
          REQUIRE(*at + length <= end);
          const auto next = taken.lower_bound(*at);
          if (next != taken.end()) REQUIRE(*at + length <= next->first);
          if (next != taken.begin())
            REQUIRE(std::prev(next)->first + std::prev(next)->second <= *at);
          taken.emplace(*at, length);
          taken_bytes += length;
        } else if (!taken.empty()) {
          auto one = std::next(taken.begin(), random.below(static_cast<uint32_t>(taken.size())));
          // in two pieces, the second first
          const uint64_t half = one->second / 2 / span_pool::unit * span_pool::unit;
          if (half > 0) pool.give(one->first + half, one->second - half);
          pool.give(one->first, half > 0 ? half : one->second);
          taken_bytes -= one->second;
          taken.erase(one);
        }
        REQUIRE(pool.free_bytes() + taken_bytes == pool.total_bytes());
      }
      for (const auto& [at, length] : taken) pool.give(at, length);
      CHECK(pool.free_bytes() == pool.total_bytes());
      CHECK(pool.free_spans() == 1);
    }
  }

  TEST_CASE("an area gives all of its bytes and not one more") {
    span_pool pool{0, 1024};
    CHECK_FALSE(pool.take(0));
    CHECK_FALSE(pool.take(1025));
    CHECK_FALSE(pool.take(UINT64_MAX));
    CHECK(*pool.take(1000) == 0);
    CHECK_FALSE(pool.take(1));
    pool.give(512, 64);
    CHECK(*pool.take(64) == 512);
  }

  TEST_CASE("the shortest span that is long enough is taken") {
    span_pool pool{0, 4096};
    const auto all = pool.take(4096);
    REQUIRE(all);
    pool.give(0, 1024);
    pool.give(2048, 128);
    CHECK(*pool.take(128) == 2048);
    CHECK(*pool.take(128) == 0);
  }
}
