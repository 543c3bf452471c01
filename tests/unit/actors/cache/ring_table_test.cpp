#include "actors/cache/ring_table.hpp"

#include <doctest/doctest.h>

namespace deepinfer {
namespace {

using storage::block_key;
using heard = ring_table::heard;

const actor_ref one{{1, 1}, 5, 9}, other{{2, 2}, 5, 9};

std::vector<block_key> chain(uint64_t blocks) {
  std::vector<block_key> keys;
  for (uint64_t i = 1; i <= blocks; ++i) keys.push_back({i, i});
  return keys;
}

TEST_SUITE_BEGIN("actors/cache");

TEST_CASE("the longest rings at or in front of a hit come first") {
  ring_table table{{.look_back = 10}};
  REQUIRE(table.apply(one, {0, {{{30, 30}, 3}, {{25, 25}, 2}, {{19, 19}, 1}}, {}}) == heard::taken);
  REQUIRE(table.apply(other, {0, {{{25, 25}, 4}, {{31, 31}, 5}}, {}}) == heard::taken);
  const auto found = table.find(chain(30));
  REQUIRE(found.size() == 3);  // block 31 is behind the hit, 19 too far in front of its end
  CHECK(found[0].blocks == 30);
  CHECK(found[0].host == one);
  CHECK(found[0].bytes == 3);
  CHECK(found[1].blocks == 25);
  CHECK(found[1].host == one);
  CHECK(found[2].host == other);
  CHECK(table.find({}).empty());
}

TEST_CASE("news out of order are a gap, and the whole list closes it") {
  ring_table table{{}};
  CHECK(table.apply(one, {1, {{{1, 1}, 1}}, {}}) == heard::gap);  // nothing is known of the host
  REQUIRE(table.apply(one, {0, {{{1, 1}, 1}, {{2, 2}, 1}}, {}}) == heard::taken);
  REQUIRE(table.apply(one, {1, {{{3, 3}, 1}}, {{1, 1}}}) == heard::taken);
  CHECK(table.size() == 2);
  CHECK(table.apply(one, {3, {{{4, 4}, 1}}, {}}) == heard::gap);
  CHECK(table.apply(one, {1, {{{4, 4}, 1}}, {}}) == heard::gap);  // again
  CHECK(table.size() == 2);
  REQUIRE(table.apply(one, {0, {{{4, 4}, 1}}, {}}) == heard::taken);
  CHECK(table.size() == 1);
  CHECK(table.apply(one, {1, {}, {{4, 4}, {77, 7}}}) == heard::taken);  // an unknown one: nothing
  CHECK(table.size() == 0);
}

TEST_CASE("a host that is gone takes its own rings along only") {
  ring_table table{{}};
  REQUIRE(table.apply(one, {0, {{{1, 1}, 1}, {{2, 2}, 1}}, {}}) == heard::taken);
  REQUIRE(table.apply(other, {0, {{{2, 2}, 8}}, {}}) == heard::taken);
  table.drop(one);
  table.drop(one);
  CHECK(table.size() == 1);
  CHECK(table.hosts() == 1);
  REQUIRE(table.find(chain(2)).size() == 1);
  CHECK(table.find(chain(2))[0].host == other);
}

TEST_CASE("rings, hosts and what is told have limits") {
  ring_table table{{.max_rings = 3, .max_hosts = 2, .max_told = 2}};
  REQUIRE(table.apply(one, {0, {{{1, 1}, 1}, {{2, 2}, 1}, {{3, 3}, 1}, {{4, 4}, 1}}, {}}) ==
          heard::taken);
  CHECK(table.size() == 3);
  CHECK(table.refused() == 1);
  CHECK(table.apply(one, {1, {{{2, 2}, 9}}, {}}) == heard::taken);  // a known one takes no place
  CHECK(table.refused() == 1);
  CHECK(table.find(chain(3)).size() == 2);
  REQUIRE(table.apply(other, {0, {}, {}}) == heard::taken);
  CHECK(table.apply({{3, 3}, 1, 1}, {0, {}, {}}) == heard::too_many);
}

TEST_SUITE_END();

}  // namespace
}  // namespace deepinfer
