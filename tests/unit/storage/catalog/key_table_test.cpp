#include "storage/catalog/key_table.hpp"

#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace deepinfer::storage {
namespace {

std::vector<block_key> sorted_keys(size_t count) {
  test::rng random{7};
  std::vector<block_key> keys(count);
  for (auto& k : keys) k = {random.next(), random.next()};
  std::sort(keys.begin(), keys.end());
  return keys;
}

TEST_SUITE_BEGIN("storage/catalog");

TEST_CASE("keys that come sorted do not pile up, whether so many were expected or not") {
  const auto keys = sorted_keys(60'000);
  const auto key_at = [&keys](uint32_t id) -> const block_key& { return keys[id]; };
  for (const size_t expected : {size_t{0}, size_t{30'000}, keys.size()}) {
    CAPTURE(expected);
    key_table table{expected};
    size_t slots = 0;
    for (uint32_t id = 0; id < keys.size(); ++id) {
      table.insert(keys[id], id, key_at);
      slots += table.reach(keys[id]);
    }
    CHECK(slots < keys.size() * 20);
    for (uint32_t id = 0; id < keys.size(); ++id) REQUIRE(table.find(keys[id], key_at) == id);
  }
}

TEST_CASE("a table grows before it must, and the copy finds what the table found") {
  const auto keys = sorted_keys(1'000);
  const auto key_at = [&keys](uint32_t id) -> const block_key& { return keys[id]; };
  key_table table{100};
  uint32_t id = 0;
  for (; !table.must_grow(10); ++id) table.insert(keys[id], id, key_at);
  CHECK(table.must_grow(10));
  CHECK_FALSE(table.must_grow(9));
  const size_t bytes = table.memory_bytes();
  table = table.grown(key_at);
  CHECK(table.memory_bytes() == 2 * bytes);
  CHECK(table.size() == id);
  for (uint32_t i = 0; i < id; ++i) CHECK(table.find(keys[i], key_at) == i);
  CHECK(table.find(keys[id], key_at) == key_table::none);
  for (uint32_t i = 0; i < id; i += 2) table.erase(keys[i], key_at);
  for (uint32_t i = 0; i < id; ++i)
    CHECK(table.find(keys[i], key_at) == (i % 2 == 0 ? key_table::none : i));
}

TEST_SUITE_END();

}  // namespace
}  // namespace deepinfer::storage
