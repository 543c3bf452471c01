#include "actors/node/fetch_keeper.hpp"

#include "tests/support/remote_world.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace std::chrono_literals;

namespace {

/// A machine on which processes start, run and die as the test says.
struct keeper_world {
  keeper_world() {
    keeper_setup setup;
    setup.hub = &node.hub;
    setup.may_start = [this] { return mine; };
    setup.start = [this]() -> result<void> {
      ++starts;
      if (!starts_well) return failure{error_code::unreachable, "no such program"};
      runs = true;
      return {};
    };
    setup.running = [this] { return runs; };
    sut = node.world.system.spawn(fetch_keeper, setup);
    world.run();
  }

  void tell(const char* kind) {
    wire::draft<wire::Members> out;
    out->initRecords(1)[0].initServices(1)[0].setKind(kind);
    node.world.self->send(sut, out.freeze());
    world.run();
  }

  bool mine = true, starts_well = true, runs = false;
  uint32_t starts = 0;
  test::remote_world world;
  test::remote_node& node = world.start("a:1");
  fetch_keeper_actor sut;
};

}  // namespace

TEST_SUITE("actors/node") {
  TEST_CASE_FIXTURE(keeper_world, "without a store in the cluster there is nothing to fetch") {
    tell("decode");
    world.advance(10s);
    CHECK(starts == 0);
    tell("kvstore");
    world.advance(500ms);
    CHECK(starts == 1);
    world.advance(1min);
    CHECK(starts == 1);
  }

  TEST_CASE_FIXTURE(keeper_world,
                    "another node's process is not doubled, and taken over when it can") {
    mine = false;
    tell("kvstore");
    world.advance(10s);
    CHECK(starts == 0);
    mine = true;
    world.advance(500ms);
    CHECK(starts == 1);
  }

  TEST_CASE_FIXTURE(keeper_world, "a process that dies is started again, later each time") {
    tell("kvstore");
    world.advance(500ms);
    REQUIRE(starts == 1);
    runs = false;
    world.advance(1s);
    CHECK(starts == 2);
    starts_well = false;
    runs = false;
    const uint32_t before = starts;
    world.advance(10min);
    CHECK(starts > before + 10);
    CHECK(starts < before + 30);  // every 30 s at last, not twice a second
  }

  TEST_CASE_FIXTURE(keeper_world, "a process that ran well is started again at once") {
    tell("kvstore");
    world.advance(500ms);
    for (int i = 0; i < 8; ++i) {
      world.advance(2min);
      runs = false;
      const uint32_t before = starts;
      world.advance(1s);
      CHECK(starts == before + 1);
    }
  }
}
