#include "storage/staging/lease_table.hpp"

#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <map>

using namespace deepinfer;
using namespace deepinfer::storage;
using namespace std::chrono_literals;

TEST_SUITE("storage/staging") {
  TEST_CASE("spans that are alive never overlap, and all bytes come back") {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      CAPTURE(seed);
      test::rng random{seed};
      lease_table table{64 * 1024, 64};
      std::map<uint64_t, lease_table::lease> live;
      time_point now{};
      for (int step = 0; step < 400; ++step) {
        now += std::chrono::milliseconds(random.below(20));
        for (const uint64_t id : table.expire(now)) live.erase(id);
        if (random.below(3) != 0) {
          const auto got = table.grant(1 + random.below(9000), now,
                                       std::chrono::milliseconds(1 + random.below(300)));
          if (!got) {
            CHECK(got.error().code == error_code::no_capacity);
            continue;
          }
          for (const auto& [id, other] : live) {
            const bool apart = got->span.offset + got->span.length <= other.span.offset ||
                               other.span.offset + other.span.length <= got->span.offset;
            REQUIRE(apart);
            REQUIRE(got->generation != other.generation);
          }
          REQUIRE(got->span.offset + got->span.length <= table.capacity());
          live.emplace(got->id, *got);
        } else if (!live.empty()) {
          CHECK(table.release(live.begin()->first));
          live.erase(live.begin());
        }
        REQUIRE(table.live() == live.size());
      }
      static_cast<void>(table.expire(now + 1h));
      CHECK(table.used_bytes() == 0);
      CHECK(table.live() == 0);
    }
  }

  TEST_CASE("an expired lease cannot be renewed, a renewed one does not expire") {
    lease_table table{4096, 64};
    const auto a = table.grant(100, 0ms, 10ms);
    const auto b = table.grant(100, 0ms, 10ms);
    REQUIRE(a);
    REQUIRE(b);
    CHECK(table.renew(a->id, 9ms, 10ms));
    CHECK(table.expire(10ms) == std::vector<uint64_t>{b->id});
    CHECK(table.renew(b->id, 10ms, 10ms).error().code == error_code::not_found);
    CHECK(table.release(b->id).error().code == error_code::not_found);
    CHECK(table.expire(18ms).empty());
    CHECK(table.expire(19ms) == std::vector<uint64_t>{a->id});
  }

  TEST_CASE("one byte over the area is refused with what to raise") {
    lease_table table{4096, 64};
    CHECK(table.grant(4097, 0ms, 1s).error().code == error_code::invalid_argument);
    CHECK(table.grant(0, 0ms, 1s).error().code == error_code::invalid_argument);
    CHECK(table.grant(4096, 0ms, 1s));
    CHECK(table.grant(1, 0ms, 1s).error().code == error_code::no_capacity);
  }

  TEST_CASE("the owner keeps what is due, a reader cannot") {
    lease_table table{4096, 64};
    const auto a = table.grant(100, 0ms, 10ms);
    const auto b = table.grant(100, 0ms, 20ms);
    REQUIRE(a);
    REQUIRE(b);
    CHECK(table.due(9ms).empty());
    CHECK(table.due(10ms) == std::vector<uint64_t>{a->id});
    CHECK(table.live() == 2);  // told of, not ended
    CHECK_FALSE(table.renew(a->id, 15ms, 10ms));
    CHECK(table.keep(a->id, 15ms, 10ms));
    CHECK(table.expire(24ms) == std::vector<uint64_t>{b->id});
    CHECK(table.keep(b->id, 24ms, 10ms).error().code == error_code::not_found);
    CHECK(table.expire(25ms) == std::vector<uint64_t>{a->id});
  }
}
