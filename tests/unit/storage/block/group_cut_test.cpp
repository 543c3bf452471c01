#include "storage/block/group_cut.hpp"

#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

namespace deepinfer::storage {
namespace {

TEST_SUITE_BEGIN("storage/block");

TEST_CASE("groups follow one another without gaps, and none has blocks of both chains") {
  test::rng random{7};
  for (int round = 0; round < 500; ++round) {
    const group_cut cut{1 + static_cast<uint32_t>(random.below(9)),
                        static_cast<uint32_t>(random.below(40))};
    CAPTURE(cut.group_blocks);
    CAPTURE(cut.shared_blocks);
    uint32_t group = 0;
    for (uint32_t at = 0; at < 100; ++at) {
      if (at == cut.end_of(group)) ++group;
      CHECK(cut.group_of(at) == group);
      CHECK(cut.first_of(group) <= at);
      CHECK(at < cut.end_of(group));
      const bool shared = at < cut.shared_blocks;
      CHECK(cut.depth_of(at) == (shared ? at : at - cut.shared_blocks));
      // as stores cut a chain by its depths
      CHECK((cut.depth_of(at) % cut.group_blocks == 0) == (at == cut.first_of(group)));
      CHECK((cut.end_of(group) <= cut.shared_blocks) == shared);
    }
  }
}

TEST_CASE("without shared blocks groups are those of one chain") {
  const group_cut cut{64, 0};
  CHECK(cut.group_of(63) == 0);
  CHECK(cut.group_of(64) == 1);
  CHECK(cut.first_of(2) == 128);
  CHECK(cut.depth_of(130) == 130);
}

TEST_CASE("the numbers of a message may be as large as they can be") {
  const group_cut cut{UINT32_MAX, UINT32_MAX};
  CHECK(cut.group_of(UINT32_MAX - 1) == 0);
  CHECK(cut.end_of(0) == UINT32_MAX);
  CHECK(cut.end_of(1) == uint64_t{2} * UINT32_MAX);
}

TEST_SUITE_END();

}  // namespace
}  // namespace deepinfer::storage
