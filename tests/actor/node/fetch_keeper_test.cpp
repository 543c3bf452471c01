#include "actors/node/fetch_keeper.hpp"

#include "tests/support/remote_world.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace deepinfer;
using namespace std::chrono_literals;

namespace {

caf::behavior silent(caf::event_based_actor*) {
  return {[](int) {}};
}

/// A machine on which processes start, run and die as the test says.
struct keeper_world {
  keeper_world() {
    keeper_setup setup;
    setup.hub = &node.hub;
    setup.log = log;
    setup.may_start = [this] { return mine; };
    setup.start = [this]() -> result<void> {
      ++starts;
      if (!starts_well) return failure{error_code::unreachable, "no such program"};
      runs = true;
      return {};
    };
    setup.ended = [this]() -> std::optional<fetch_end> {
      if (runs) return std::nullopt;
      return end;
    };
    setup.fetch_inside = [this]() -> result<caf::actor> {
      ++insides;
      if (!room_inside) return failure{error_code::too_large, "no room"};
      inside = node.world.system.spawn(silent);
      return inside;
    };
    sut = node.world.system.spawn(fetch_keeper, setup);
    world.run();
  }

  void tell(const char* kind) {
    wire::draft<wire::Members> out;
    out->initRecords(1)[0].initServices(1)[0].setKind(kind);
    node.world.self->send(sut, out.freeze());
    world.run();
  }

  void die(fetch_end how) {
    end = std::move(how);
    runs = false;
    world.advance(1s);
  }

  [[nodiscard]] long lines(const std::string& what) const {
    const auto all = log->tail(1000);
    return std::count_if(all.begin(), all.end(), [&](const std::string& line) {
      return line.find(what) != std::string::npos;
    });
  }

  bool mine = true, starts_well = true, runs = false, room_inside = true;
  fetch_end end{.came_up = true, .killed = true, .why = "signal 9"};
  uint32_t starts = 0, insides = 0;
  caf::actor inside;
  std::shared_ptr<ring_log> log = std::make_shared<ring_log>(
      1000, log_level::debug, [] { return std::chrono::sys_time<std::chrono::milliseconds>{}; });
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

  TEST_CASE_FIXTURE(keeper_world, "a process that is killed is started again, later each time") {
    tell("kvstore");
    world.advance(500ms);
    REQUIRE(starts == 1);
    die({.came_up = true, .killed = true, .why = "signal 9"});
    CHECK(starts == 2);
    CHECK(lines("warn kvfetch.lost why=\"signal 9\"") == 1);
    const uint32_t before = starts;
    for (int i = 0; i < 600; ++i) die({.came_up = i % 2 == 0, .killed = true});
    CHECK(starts > before + 10);
    CHECK(starts < before + 30);  // every 30 s at last, not twice a second
    CHECK(insides == 0);          // what killed it must not kill the node
  }

  TEST_CASE_FIXTURE(keeper_world, "a process that ran well is started again at once") {
    tell("kvstore");
    world.advance(500ms);
    for (int i = 0; i < 8; ++i) {
      world.advance(2min);
      const uint32_t before = starts;
      die({.came_up = true, .killed = true});
      CHECK(starts == before + 1);
    }
  }

  TEST_CASE_FIXTURE(keeper_world, "a process that ends because it was asked to warns nobody") {
    tell("kvstore");
    world.advance(2min);
    die({.came_up = true, .why = "exit status 0"});
    CHECK(lines("info kvfetch.ended") == 1);
    CHECK(lines("warn") == 0);
  }

  TEST_CASE_FIXTURE(keeper_world, "what never comes up is replaced by an actor inside, once") {
    SUBCASE("a program that cannot be started") {
      starts_well = false;
    }
    SUBCASE("a process that says why it ends") {
      end = {.failed = true, .why = "no such program"};
    }
    tell("kvstore");
    for (int i = 0; i < 60 && insides == 0; ++i) {
      runs = false;
      world.advance(500ms);
    }
    CHECK(starts == 3);
    CHECK(insides == 1);
    CHECK(lines("warn kvfetch.not_started why=\"no such program\"") == 3);
    CHECK(lines("warn kvfetch.inside") == 1);
    world.advance(10min);
    CHECK(starts == 3);
    CHECK(insides == 1);
    // it ends with its keeper
    node.world.self->monitor(inside);
    caf::anon_send_exit(sut, caf::exit_reason::user_shutdown);
    world.run();
    bool ended = false;
    node.world.self->receive([&](const caf::down_msg&) { ended = true; });
    CHECK(ended);
  }

  TEST_CASE_FIXTURE(keeper_world, "where there is no room inside either, hits are computed") {
    starts_well = room_inside = false;
    tell("kvstore");
    world.advance(10min);
    CHECK(starts == 3);
    CHECK(insides == 1);
    CHECK(lines("warn kvfetch.absent why=\"no room\"") == 1);
    CHECK(lines("kvfetch.inside") == 0);
  }

  TEST_CASE_FIXTURE(keeper_world, "a node that ends misses no process, and starts none") {
    tell("kvstore");
    world.advance(2min);
    node.world.self->send(sut, stop_keeping{});
    die({.came_up = true, .killed = true});
    world.advance(1min);
    CHECK(starts == 1);
    CHECK(lines("warn") == 0);
  }
}
