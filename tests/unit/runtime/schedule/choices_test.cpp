#include "runtime/schedule/choices.hpp"

#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <set>

using namespace deepinfer;
using namespace deepinfer::schedule;

TEST_SUITE("runtime/schedule") {
  TEST_CASE("the first choice is the request itself") {
    const request_id id{7, 8};
    CHECK(choice_id(id, 0) == id);
    CHECK(choice_seed(42, 0) == 42);
    CHECK(limits_of_choice({.credit_window = 512}, 1).credit_window == 512);
  }

  TEST_CASE("choices have ids and seeds of their own, also beside those of other requests") {
    test::rng random{71};
    std::set<request_id> ids;
    std::set<uint64_t> seeds;
    for (int request = 0; request < 100; ++request) {
      const request_id id{random.next(), random.next()};
      const uint64_t seed = request < 50 ? static_cast<uint64_t>(request) : random.next();
      for (uint32_t choice = 0; choice < 128; ++choice) {
        ids.insert(choice_id(id, choice));
        seeds.insert(choice_seed(seed, choice));
      }
    }
    CHECK(ids.size() == 12800);
    CHECK(seeds.size() == 12800);
  }

  TEST_CASE("the seed of a choice is that number of splitmix64") {
    // The first outputs for state 0, as published with the generator.
    CHECK(choice_seed(0, 1) == 0xE220A8397B1DCDAFu);
    CHECK(choice_seed(0, 2) == 0x6E789E6AA1B965F4u);
    CHECK(choice_seed(0, 3) == 0x06C45D188009454Fu);
  }

  TEST_CASE("all choices together have the credit window of one answer, each at least a token") {
    for (const uint32_t window : {1u, 7u, 512u})
      for (const uint32_t choices : {1u, 2u, 8u, 128u}) {
        const uint32_t each = limits_of_choice({.credit_window = window}, choices).credit_window;
        CHECK(each >= 1);
        CHECK((each == 1 || each * choices <= window));
      }
  }
}
