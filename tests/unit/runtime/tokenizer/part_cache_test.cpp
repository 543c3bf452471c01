#include "runtime/tokenizer/part_cache.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace deepinfer;
using text::part_cache;
using text::part_cache_limits;
using text::text_part;

namespace {

text_part part_of(const std::string& bytes) {
  return {bytes, {}, 0};
}

/// Keeps one part; its ids do not matter here.
void keep(part_cache& cache, const std::string& scope, const std::string& bytes) {
  const std::vector parts{cache.make(part_of(bytes), {1, 2, 3})};
  cache.keep(scope, parts);
}

bool has(part_cache& cache, const std::string& scope, const std::string& bytes) {
  const std::vector parts{part_of(bytes)};
  return cache.find(scope, parts)[0] != nullptr;
}

/// What one part of `bytes` bytes counts for.
size_t size_of(size_t bytes) {
  return part_cache().make(part_of(std::string(bytes, 'x')), {1, 2, 3})->bytes();
}

}  // namespace

TEST_SUITE("runtime/tokenizer") {
  TEST_CASE("a kept part comes back with its ids, and alone by its own bytes") {
    part_cache cache;
    keep(cache, "a", "some text");
    const std::string known = "some text", other = "some texT";
    const std::vector asked{part_of(other), part_of(known)};
    const auto found = cache.find("a", asked);
    CHECK(found[0] == nullptr);
    REQUIRE(found[1] != nullptr);
    CHECK(found[1]->ids == std::vector<int32_t>{1, 2, 3});
    CHECK(cache.counters().parts_asked == 2);
    CHECK(cache.counters().parts_found == 1);
    CHECK(cache.counters().bytes_asked == 18);
    CHECK(cache.counters().bytes_found == 9);
  }

  TEST_CASE("special ranges count from the part's start, wherever it stands") {
    part_cache cache;
    const std::string front = "xx<think>y", back = "..........xx<think>y";
    const std::vector<text::special_range> at_front{{2, 9}}, at_back{{12, 19}}, shifted{{1, 9}};
    const std::vector kept{cache.make({front, at_front, 0}, {5})};
    cache.keep("a", kept);
    const std::string_view later = std::string_view(back).substr(10);
    const std::vector<text_part> asked{
        {later, at_back, 10}, {later, {}, 10}, {front, shifted, 0}, {front, at_front, 0}};
    const auto found = cache.find("a", asked);
    CHECK(found[0] != nullptr);
    CHECK(found[1] == nullptr);
    CHECK(found[2] == nullptr);
    CHECK(found[3] == found[0]);
  }

  TEST_CASE("parts of one digest are told apart by their bytes and by each of their ranges") {
    part_cache cache({}, [](const text_part&) { return digest128{1, 1}; });
    const std::string bytes = "<think><think>", others = "<think><Think>";
    const std::vector<text::special_range> first{{0, 7}}, second{{7, 14}}, longer{{0, 14}},
        both{{0, 7}, {7, 14}};
    const std::vector<text_part> all{{bytes, {}, 0},     {bytes, first, 0}, {bytes, second, 0},
                                     {bytes, longer, 0}, {bytes, both, 0},  {others, first, 0}};
    for (size_t kept = 0; kept < all.size(); ++kept) {
      CAPTURE(kept);
      const std::vector one{cache.make(all[kept], {9})};
      cache.keep("a", one);
      const auto found = cache.find("a", all);
      for (size_t i = 0; i < all.size(); ++i) CHECK((found[i] != nullptr) == (i == kept));
    }
    CHECK(cache.counters().parts == 1);
  }

  TEST_CASE("one part too many and the one used longest ago is gone") {
    part_cache_limits limits;
    limits.max_parts = 3;
    part_cache cache(limits);
    for (const char* bytes : {"1", "2", "3"}) keep(cache, "a", bytes);
    CHECK(has(cache, "a", "1"));
    keep(cache, "a", "4");
    CHECK_FALSE(has(cache, "a", "2"));
    for (const char* bytes : {"1", "3", "4"}) CHECK(has(cache, "a", bytes));
    CHECK(cache.counters().parts == 3);
    CHECK(cache.counters().parts_given_up == 1);
  }

  TEST_CASE("one byte too many in a scope costs that scope, and no other") {
    part_cache_limits limits;
    limits.max_scope_bytes = 2 * size_of(10);
    part_cache cache(limits);
    keep(cache, "b", "theirs");
    keep(cache, "a", "0123456789");
    keep(cache, "a", "1234567890");
    CHECK(has(cache, "a", "0123456789"));
    CHECK(has(cache, "a", "1234567890"));
    keep(cache, "a", "2345678901");
    CHECK_FALSE(has(cache, "a", "0123456789"));
    CHECK(has(cache, "a", "1234567890"));
    CHECK(has(cache, "b", "theirs"));
  }

  TEST_CASE("one byte too many over all costs the scope used longest ago") {
    part_cache_limits limits;
    limits.max_bytes = 3 * size_of(10);
    part_cache cache(limits);
    keep(cache, "a", "0123456789");
    keep(cache, "b", "1234567890");
    keep(cache, "c", "2345678901");
    CHECK(cache.counters().bytes == limits.max_bytes);
    CHECK(has(cache, "a", "0123456789"));
    keep(cache, "c", "3456789012");
    CHECK_FALSE(has(cache, "b", "1234567890"));
    CHECK(has(cache, "a", "0123456789"));
    CHECK(cache.counters().scopes == 2);
    CHECK(cache.counters().bytes == limits.max_bytes);
  }

  TEST_CASE("one scope too many and the one used longest ago is gone as a whole") {
    part_cache_limits limits;
    limits.max_scopes = 2;
    part_cache cache(limits);
    keep(cache, "a", "1");
    keep(cache, "a", "2");
    keep(cache, "b", "1");
    keep(cache, "c", "1");
    CHECK(cache.counters().scopes == 2);
    CHECK(cache.counters().parts == 2);
    CHECK(cache.counters().parts_given_up == 2);
    CHECK(cache.counters().bytes == 2 * size_of(1));
    CHECK_FALSE(has(cache, "a", "1"));
  }

  TEST_CASE("a part larger than a scope may hold is not kept, and throws nothing out") {
    part_cache_limits limits;
    limits.max_scope_bytes = size_of(100);
    part_cache cache(limits);
    keep(cache, "a", "small");
    keep(cache, "a", std::string(101, 'x'));
    CHECK(has(cache, "a", "small"));
    CHECK(cache.counters().parts == 1);
    keep(cache, "a", std::string(100, 'x'));
    CHECK(has(cache, "a", std::string(100, 'x')));
    CHECK_FALSE(has(cache, "a", "small"));
  }

  TEST_CASE("the first part of a prompt outlives its last ones") {
    part_cache_limits limits;
    limits.max_parts = 40;
    part_cache cache(limits);
    std::vector<std::string> texts;
    for (int i = 0; i < 100; ++i) texts.push_back("part " + std::to_string(i));
    std::vector<std::shared_ptr<const text::kept_part>> made;
    for (const auto& bytes : texts) made.push_back(cache.make(part_of(bytes), {}));
    cache.keep("a", made);
    for (int i = 0; i < 40; ++i) CHECK(has(cache, "a", texts[static_cast<size_t>(i)]));
    CHECK_FALSE(has(cache, "a", texts[40]));
  }

  TEST_CASE("a limit of zero keeps nothing") {
    for (int which = 0; which < 4; ++which) {
      part_cache_limits limits;
      (which == 0 ? limits.max_bytes : which == 1 ? limits.max_scope_bytes : limits.max_parts) = 0;
      if (which == 3) limits = {.max_scopes = 0};
      part_cache cache(limits);
      keep(cache, "a", "x");
      CHECK_FALSE(has(cache, "a", "x"));
      CHECK(cache.counters().bytes == 0);
      CHECK(cache.counters().scopes == 0);
    }
  }

  TEST_CASE("the same part kept twice counts once") {
    part_cache cache;
    keep(cache, "a", "same");
    const size_t once = cache.counters().bytes;
    keep(cache, "a", "same");
    CHECK(cache.counters().bytes == once);
    CHECK(cache.counters().parts == 1);
  }
}
