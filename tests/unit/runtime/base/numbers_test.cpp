#include "runtime/base/digest.hpp"
#include "runtime/base/rng.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace deepinfer;

TEST_SUITE_BEGIN("runtime/base");

TEST_CASE("splitmix64 gives its published numbers") {
  // first outputs for seed 1234567 of the reference program by S. Vigna
  uint64_t state = 1234567;
  CHECK(splitmix64(state) == 6457827717110365317u);
  CHECK(splitmix64(state) == 3203168211198807973u);
  CHECK(splitmix64(state) == 9817491932198370423u);
}

TEST_CASE("the same seed gives the same numbers, on every platform") {
  rng a{42}, b{42}, c{43};
  const uint64_t first = a.next();
  CHECK(first == b.next());
  CHECK(first != c.next());
  CHECK(rng{42}.fork(1).next() == rng{42}.fork(1).next());
  CHECK(rng{42}.fork(1).next() != rng{42}.fork(2).next());
}

TEST_CASE("below stays below and reaches every value evenly") {
  rng random{7};
  std::array<int, 6> seen{};
  for (int i = 0; i < 60000; ++i) ++seen[random.below(6)];
  for (const int count : seen) {
    CHECK(count > 9500);  // 10000 expected, deviation 91
    CHECK(count < 10500);
  }
  CHECK(random.below(1) == 0);
  CHECK(random.below(0) == 0);
}

TEST_CASE("real is in [0, 1) with mean one half") {
  rng random{7};
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double x = random.real();
    REQUIRE(x >= 0);
    REQUIRE(x < 1);
    sum += x;
  }
  CHECK(sum / 10000 == doctest::Approx(0.5).epsilon(0.02));
}

TEST_CASE("a digest is XXH3-128, high half first") {
  CHECK(to_hex(digest_of("")) == "99aa06d3014798d86001c324468d497f");  // published for no bytes
  CHECK(digest_of("a") != digest_of("b"));
}

TEST_CASE("hex reads back, and nothing else does") {
  const digest128 digest = digest_of("deepinfer");
  CHECK(*parse_digest(to_hex(digest)) == digest);
  CHECK_FALSE(parse_digest(""));
  CHECK_FALSE(parse_digest(to_hex(digest) + "0"));
  CHECK_FALSE(parse_digest("G9aa06d3014798d86001c324468d497f"));
  const std::array bytes{std::byte{0x0F}, std::byte{0xA0}};
  CHECK(to_hex(bytes) == "0fa0");
}

TEST_SUITE_END();
