#include "runtime/policy/route_policy.hpp"

#include "runtime/policy/engine_table.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace deepinfer;
using namespace deepinfer::policy;
using namespace std::chrono_literals;

namespace {

engine_key key(uint64_t n) {
  return {node_id{1, n}, 7};
}

load_report idle_report(uint64_t number) {
  return {number, true, 0, 0, 8, 0, 10'000};
}

}  // namespace

TEST_SUITE("runtime/policy") {
  TEST_CASE("prefill goes where the least prompt work waits, ties to the first") {
    const auto policy = make_least_work_prefill();
    const std::vector<engine_view> engines{{.queued_tokens = 50, .accepting = true},
                                           {.queued_tokens = 10, .accepting = false},
                                           {.queued_tokens = 20, .accepting = true},
                                           {.queued_tokens = 20, .accepting = true}};
    CHECK(*policy->choose(engines, {100, 10}) == 2);
  }

  TEST_CASE("decode weighs sequences and context together and leaves out engines without room") {
    const auto policy = make_least_work_decode({1.0, 1e-3});
    std::vector<engine_view> engines{{.running_sequences = 2,
                                      .max_sequences = 8,
                                      .context_tokens = 9000,
                                      .free_tokens = 5000,
                                      .accepting = true},
                                     {.running_sequences = 5,
                                      .max_sequences = 8,
                                      .context_tokens = 100,
                                      .free_tokens = 5000,
                                      .accepting = true}};
    CHECK(*policy->choose(engines, {100, 10}) == 1);
    CHECK(*policy->choose(engines, {100, 4900}) == 1);
    engines[1].free_tokens = 109;
    CHECK(*policy->choose(engines, {100, 10}) == 0);
    engines[0].running_sequences = 8;
    CHECK(policy->choose(engines, {100, 10}).error().code == error_code::no_capacity);
  }

  TEST_CASE("requests inside one report interval spread over equal engines") {
    engine_table table{{}};
    const auto policy = make_least_work_prefill();
    for (uint64_t n = 0; n < 4; ++n) {
      table.add(key(n));
      table.apply(key(n), idle_report(1), 0ms);
    }
    std::map<engine_key, int> placed;
    for (int i = 0; i < 8; ++i) {
      const auto chosen = table.choose(*policy, {100, 10}, {}, 1ms);
      REQUIRE(chosen);
      table.placed(*chosen, {100, 10}, 1ms);
      ++placed[*chosen];
    }
    for (const auto& [engine, count] : placed) CHECK(count == 2);
    CHECK(placed.size() == 4);
  }

  TEST_CASE("a silent engine gets nothing, an old report changes nothing") {
    engine_table table{{}};
    const auto policy = make_least_work_prefill();
    CHECK(table.choose(*policy, {1, 1}, {}, 0ms).error().code == error_code::no_capacity);
    table.add(key(1));
    CHECK(table.choose(*policy, {1, 1}, {}, 0ms).error().code == error_code::no_capacity);
    table.apply(key(1), idle_report(5), 0ms);
    CHECK(table.choose(*policy, {1, 1}, {}, 2999ms));
    CHECK_FALSE(table.choose(*policy, {1, 1}, {}, 3000ms));
    auto full = idle_report(4);
    full.accepting = false;
    table.apply(key(1), idle_report(6), 3000ms);
    table.apply(key(1), full, 3001ms);
    CHECK(table.choose(*policy, {1, 1}, {}, 3002ms));
    const std::vector exclude{key(1)};
    CHECK(table.choose(*policy, {1, 1}, exclude, 3002ms).error().code == error_code::no_capacity);
  }

  TEST_CASE("the choice does not depend on the order in which engines became known") {
    for (uint64_t seed = 0; seed < 100; ++seed) {
      CAPTURE(seed);
      test::rng random{seed};
      const uint32_t count = 1 + random.below(6);
      std::vector<load_report> reports;
      for (uint32_t i = 0; i < count; ++i)
        reports.push_back({1, random.below(4) != 0, random.below(3), random.below(3), 8,
                           random.below(3), 10'000});
      engine_table forward{{}}, backward{{}};
      for (uint32_t i = 0; i < count; ++i)
        forward.add(key(i)), forward.apply(key(i), reports[i], 0ms);
      for (uint32_t i = count; i-- > 0;)
        backward.add(key(i)), backward.apply(key(i), reports[i], 0ms);
      const auto policy =
          random.below(2) == 0 ? make_least_work_prefill() : make_least_work_decode({});
      const auto a = forward.choose(*policy, {10, 10}, {}, 1ms);
      const auto b = backward.choose(*policy, {10, 10}, {}, 1ms);
      REQUIRE(bool(a) == bool(b));
      if (a) CHECK(*a == *b);
    }
  }
}
