#include "actors/node/progress_line.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace std::chrono_literals;

TEST_SUITE("actors/node") {
  TEST_CASE("progress says how much, how fast and how long still") {
    CHECK(progress_text(2'000'000'000, 8'000'000'000, 4s) == "2.0 of 8.0 GB, 0.50 GB/s, 0:12 left");
    CHECK(progress_text(10'000'000'000, 510'000'000'000, 10s) ==
          "10.0 of 510.0 GB, 1.00 GB/s, 8:20 left");
    CHECK(progress_text(5, 5, 1ms) == "0.0 of 0.0 GB, 0.00 GB/s, 0:00 left");
  }
}
