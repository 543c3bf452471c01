#include "tests/unit/runtime/net/recorder.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace std::chrono_literals;
using test::loop_peer;
using test::run_all;

namespace {

struct pair_world {
  net::loop_network network;
  loop_peer a{network, 1}, b{network, 2};

  explicit pair_world(uint64_t seed, const net::loop_options& options = {})
      : network(seed, options) {
    a.link->dial(b.address());
    run_all(network);
    REQUIRE(a.heard.up[b.id()] == 1);
  }
  void cut() { network.partition({a.address()}, {b.address()}); }
};

}  // namespace

TEST_SUITE("runtime/net/loop") {
  TEST_CASE("a partition ends the link on both sides once, by silence") {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(seed);
      pair_world world{seed};
      const auto start = world.network.now();
      world.cut();
      REQUIRE(world.a.send(world.b, 1));
      run_all(world.network);
      CHECK(world.a.heard.down[world.b.id()] == 1);
      CHECK(world.b.heard.down[world.a.id()] == 1);
      CHECK(world.a.heard.last_down.code == error_code::unreachable);
      CHECK(world.network.now() - start <= 2500ms);
      CHECK(world.network.now() - start >= 2000ms);
      CHECK(world.b.heard.received.empty());
      CHECK(world.a.send(world.b, 2).error().code == error_code::unreachable);
      world.network.heal();
      run_all(world.network);
      CHECK(world.a.heard.down[world.b.id()] == 1);
      world.a.link->dial(world.b.address());
      run_all(world.network);
      CHECK(world.a.heard.up[world.b.id()] == 2);
      CHECK(world.b.heard.up[world.a.id()] == 2);
    }
  }

  TEST_CASE("a short partition only delays: frames before, in and after it arrive in order") {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(seed);
      pair_world world{seed};
      uint64_t next = 0;
      const auto send_some = [&] {
        for (int i = 0; i < 5; ++i) REQUIRE(world.a.send(world.b, next++, 64));
      };
      send_some();
      world.network.run_one();
      world.cut();
      send_some();
      world.network.run_until(world.network.now() + 1s);
      CHECK(world.b.heard.received[world.a.id()].size() < 10);
      send_some();
      world.network.heal();
      send_some();
      run_all(world.network);
      std::vector<uint64_t> expected;
      for (uint64_t i = 0; i < next; ++i) expected.push_back(i);
      CHECK(world.b.heard.received[world.a.id()] == expected);
      CHECK(world.a.heard.down.empty());
      CHECK(world.b.heard.down.empty());
    }
  }

  TEST_CASE("a dial across a cut fails within the dial timeout") {
    net::loop_network network{1, {}};
    loop_peer a{network, 1}, b{network, 2};
    network.partition({"node1"}, {"node2", "node3"});
    a.link->dial("node2");
    run_all(network);
    CHECK(a.heard.last_dial.code == error_code::unreachable);
    CHECK(network.now() == 2s);
    CHECK(b.heard.lines.empty());
  }

  TEST_CASE("peers of a killed node learn it at once and once, and it hears nothing more") {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(seed);
      pair_world world{seed};
      for (uint64_t i = 0; i < 5; ++i) REQUIRE(world.b.send(world.a, i));
      const auto start = world.network.now();
      const auto heard_before = world.b.heard.lines.size();
      world.network.kill(world.b.address());
      REQUIRE(world.a.send(world.b, 9));
      run_all(world.network);
      CHECK(world.a.heard.down[world.b.id()] == 1);
      CHECK(world.a.heard.last_down.code == error_code::unreachable);
      CHECK(world.network.now() - start < 1ms);
      CHECK(world.b.heard.lines.size() == heard_before);
      // what arrived is a beginning of what was sent
      const auto& got = world.a.heard.received[world.b.id()];
      for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == i);
      CHECK(world.a.heard.lines.back() == "down unreachable");
    }
  }

  TEST_CASE("a restart on the same address is another node") {
    pair_world world{3};
    world.network.kill(world.b.address());
    test::recorder heard;
    const auto again = world.network.make_transport({{77, 77}, 2, world.b.address(), "test", ""});
    REQUIRE(again->start(heard));
    world.a.link->dial(world.b.address());
    run_all(world.network);
    CHECK(world.a.heard.up[node_id{77, 77}] == 1);
    CHECK(world.a.heard.down[world.b.id()] == 1);
    CHECK(world.a.send(world.b, 1).error().code == error_code::unreachable);
    wire::frame_header header;
    header.message_id = 5;
    REQUIRE(world.a.link->send({77, 77}, {header, {}, {}}));
    run_all(world.network);
    CHECK(heard.received[world.a.id()] == std::vector<uint64_t>{5});
  }

  TEST_CASE("an address is used by one node at a time") {
    net::loop_network network{1, {}};
    loop_peer a{network, 1};
    test::recorder heard;
    const auto other = network.make_transport({{5, 5}, 1, a.address(), "test", ""});
    CHECK(other->start(heard).error().code == error_code::no_capacity);
  }

  TEST_CASE("stop says goodbye: peers are told, open reads end, nothing is called afterwards") {
    pair_world world{4};
    std::vector<std::byte> memory(64), into(64);
    const auto region = world.b.link->register_memory(memory);
    error_code code = error_code::ok;
    world.a.link->read(world.b.id(), {region->key, 0, 64}, into, 10s,
                       [&](const result<void>& how) { code = how.error().code; });
    world.a.link->stop();
    CHECK(code == error_code::cancelled);
    CHECK(world.a.heard.down[world.b.id()] == 1);
    const auto lines = world.a.heard.lines.size();
    run_all(world.network);
    CHECK(world.a.heard.lines.size() == lines);
    CHECK(world.b.heard.down[world.a.id()] == 1);
    CHECK(world.b.heard.last_down.code == error_code::cancelled);
    world.a.link->stop();
  }

  TEST_CASE("drop ends the link on both sides, with the given reason on the own one") {
    pair_world world{5};
    world.a.link->drop(world.b.id(), {error_code::corrupt, "nonsense"});
    CHECK(world.a.heard.down.empty());
    run_all(world.network);
    CHECK(world.a.heard.last_down.code == error_code::corrupt);
    CHECK(world.b.heard.last_down.code == error_code::unreachable);
    CHECK(world.a.heard.down[world.b.id()] == 1);
    CHECK(world.b.heard.down[world.a.id()] == 1);
  }

  TEST_CASE("a lost frame ends the link, and never is a gap delivered") {
    for (const auto mode : {net::loop_loss::breaks_link, net::loop_loss::opens_gap}) {
      net::loop_options options;
      options.loss_per_million = 200'000;
      options.loss = mode;
      for (uint64_t seed = 0; seed < 20; ++seed) {
        CAPTURE(seed);
        pair_world world{seed, options};
        for (uint64_t i = 0; i < 100; ++i) REQUIRE(world.a.send(world.b, i));
        run_all(world.network);
        const auto& got = world.b.heard.received[world.a.id()];
        CHECK(got.size() < 100);
        for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == i);
        CHECK(world.a.heard.down[world.b.id()] == 1);
        CHECK(world.b.heard.down[world.a.id()] == 1);
      }
    }
  }

  TEST_CASE("a lost last frame is found by the next heartbeat") {
    net::loop_options options;
    options.loss_per_million = 1'000'000;
    options.loss = net::loop_loss::opens_gap;
    pair_world world{1, options};
    REQUIRE(world.a.send(world.b, 1));
    run_all(world.network);
    CHECK(world.b.heard.last_down.code == error_code::corrupt);
    CHECK(world.network.now() <= 502ms);
  }

  TEST_CASE("a read ends once: by the peer's death, the deadline, or the data after a cut") {
    std::vector<std::byte> memory(64, std::byte{9}), into(64);
    const auto read = [&](pair_world& world, std::chrono::milliseconds deadline, auto meanwhile) {
      const auto region = world.b.link->register_memory(memory);
      std::vector<error_code> ends;
      world.a.link->read(world.b.id(), {region->key, 0, 64}, into, deadline,
                         [&](const result<void>& how) {
                           ends.push_back(how ? error_code::ok : how.error().code);
                         });
      meanwhile();
      run_all(world.network);
      REQUIRE(ends.size() == 1);
      return ends.front();
    };
    pair_world dying{1}, silent{2}, slow{3}, healed{4};
    CHECK(read(dying, 10s, [&] { dying.network.kill("node2"); }) == error_code::unreachable);
    CHECK(read(silent, 10s, [&] { silent.cut(); }) == error_code::unreachable);
    CHECK(read(slow, 1s, [&] { slow.cut(); }) == error_code::deadline_exceeded);
    CHECK(into == std::vector<std::byte>(64));
    CHECK(read(healed, 10s, [&] {
            healed.cut();
            healed.network.run_until(healed.network.now() + 1s);
            healed.network.heal();
          }) == error_code::ok);
    CHECK(into == memory);
  }
}
