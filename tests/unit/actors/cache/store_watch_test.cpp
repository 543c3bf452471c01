#include "actors/cache/store_watch.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

namespace deepinfer {
namespace {

using namespace std::chrono_literals;

std::map<std::string, uint64_t> names(const std::vector<store_event>& events) {
  std::map<std::string, uint64_t> all;
  for (const store_event& event : events) all[std::string{event.name}] = event.count;
  return all;
}

using told = std::map<std::string, uint64_t>;

}  // namespace

TEST_SUITE_BEGIN("actors/cache/store_watch");

TEST_CASE("a store that is well says nothing") {
  store_watch watch{"/kv"};
  for (int i = 0; i < 100; ++i) CHECK(watch.look({}, {}, i * 1s).empty());
}

TEST_CASE("what happens again and again is told once a minute, with how often") {
  store_watch watch{"/kv"};
  storage::store_stats stats;
  stats.read_failures = 3;
  CHECK(names(watch.look(stats, {}, 0s)) == told{{"kvstore.read_failed", 3}});
  for (int i = 1; i < 60; ++i) {
    ++stats.read_failures;
    CHECK(watch.look(stats, {}, i * 1s).empty());
  }
  CHECK(names(watch.look(stats, {}, 60s)) == told{{"kvstore.read_failed", 59}});
  CHECK(watch.look(stats, {}, 1h).empty());
}

TEST_CASE("kinds of trouble do not hide each other, and each says what to do") {
  store_watch watch{"/kv"};
  storage::store_stats stats;
  stats.read_failures = stats.write_failures = stats.quarantined = stats.diverged = 1;
  stats.hash_collisions = stats.evicted_below_floor = stats.lost_at_open = 1;
  stats.clock_frozen = stats.broken = true;
  const auto events = watch.look(stats, {.hung = 2, .full = 1, .malformed = 1}, 0s);
  CHECK(names(events).size() == 12);
  for (const store_event& event : events) {
    CHECK_FALSE(event.good);
    CHECK(event.why.size() > 20);
    CHECK(event.count > 0);
  }
}

TEST_CASE("what lasts is told when it begins and ends, and seldom between") {
  store_watch watch{"/kv"};
  storage::store_stats stats;
  stats.broken = true;
  CHECK(names(watch.look(stats, {}, 0s)).contains("kvstore.journal_broken"));
  CHECK(watch.look(stats, {}, 599s).empty());
  CHECK(names(watch.look(stats, {}, 600s)).contains("kvstore.journal_broken"));
  stats.broken = false;
  const auto ended = watch.look(stats, {}, 601s);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].name == "kvstore.journal_mended");
  CHECK(ended[0].good);
  CHECK(watch.look(stats, {}, 2h).empty());
  CHECK(names(watch.look(stats, {.hung = 3}, 2h)) == told{{"kvstore.hung", 3}});
  CHECK(names(watch.look(stats, {}, 3h)).contains("kvstore.answers"));
}

TEST_SUITE_END();

}  // namespace deepinfer
