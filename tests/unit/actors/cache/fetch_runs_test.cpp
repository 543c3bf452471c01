#include "actors/cache/fetch_runs.hpp"

#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;

TEST_SUITE("actors/cache") {
  TEST_CASE("pieces of one source behind one another are one read, a gap between them read along") {
    const auto runs = fetch::runs_of({{0, 0, 1000},
                                      {0, 1024, 1000},
                                      {0, 5120, 1000},   // 3,096 bytes behind the one before
                                      {0, 20480, 1000},  // too far
                                      {1, 21504, 1000},  // of another source
                                      {},                // does not come
                                      {1, 22528, 1000}});
    REQUIRE(runs.size() == 4);
    CHECK(runs[0].count == 3);
    CHECK(runs[0].bytes == 6120);
    CHECK(runs[1].first == 3);
    CHECK(runs[2].first == 4);
    CHECK(runs[3].first == 6);
  }

  TEST_CASE("the parts of a run have its bytes, each between two pieces and none too long") {
    test::rng random{5};
    for (int round = 0; round < 300; ++round) {
      std::vector<fetch::piece> pieces;
      uint64_t at = 0;
      for (uint64_t i = 0, count = 1 + random.below(40); i < count; ++i) {
        const auto length = static_cast<uint32_t>(1 + random.below(3000));
        pieces.push_back({0, at, random.below(8) == 0 ? 0 : length});
        at += (length + 1023) / 1024 * 1024;
      }
      auto runs = fetch::runs_of(pieces);
      uint64_t into = 1 << 20;
      for (fetch::run& r : runs) {
        r.into = into;
        into += r.bytes + 4096;
      }
      const uint64_t most = 1 + random.below(8000);
      const auto parts = fetch::parts_of(runs, pieces, most);
      size_t part = 0;
      for (const fetch::run& r : runs) {
        uint32_t next = r.first;
        for (; next < r.first + r.count; ++part) {
          REQUIRE(part < parts.size());
          const fetch::run& p = parts[part];
          CHECK(p.first == next);
          CHECK(p.from == pieces[next].offset);
          CHECK(p.into - r.into == p.from - r.from);
          next += p.count;
          CHECK(p.from + p.bytes == pieces[next - 1].offset + pieces[next - 1].length);
          CHECK((p.count == 1 || p.bytes <= most));
        }
        CHECK(next == r.first + r.count);
      }
      CHECK(part == parts.size());
    }
  }
}
