#include "tests/support/rng.hpp"
#include "tests/unit/runtime/net/recorder.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace std::chrono_literals;
using test::loop_peer;
using test::run_all;

namespace {

/// Everything three nodes hear during a busy run with losses.
std::vector<std::string> busy_run(uint64_t seed) {
  net::loop_options options;
  options.loss_per_million = 2'000;
  net::loop_network network{seed, options};
  std::vector<std::unique_ptr<loop_peer>> peers;
  for (uint64_t i = 1; i <= 3; ++i) peers.push_back(std::make_unique<loop_peer>(network, i));
  test::rng random{seed};
  for (int round = 0; round < 300; ++round) {
    auto& from = *peers[random.below(3)];
    auto& to = *peers[random.below(3)];
    if (random.below(10) == 0) from.link->dial(to.address());
    (void)from.send(to, static_cast<uint64_t>(round), 8 * random.below(100)).has_value();
    for (uint32_t steps = random.below(4); steps > 0; --steps) network.run_one();
  }
  run_all(network);
  std::vector<std::string> all;
  for (const auto& peer : peers)
    all.insert(all.end(), peer->heard.lines.begin(), peer->heard.lines.end());
  all.push_back(std::to_string(network.now().count()));
  return all;
}

}  // namespace

TEST_SUITE("runtime/net/loop") {
  TEST_CASE("the same seed gives the same run, another seed another one") {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      CAPTURE(seed);
      const auto first = busy_run(seed);
      CHECK(first.size() > 50);
      CHECK(first == busy_run(seed));
      CHECK(first != busy_run(seed + 1000));
    }
  }

  TEST_CASE("a dial brings both sides up once, and frames arrive in order and sealed") {
    net::loop_network network{1, {}};
    loop_peer a{network, 1}, b{network, 2};
    a.link->dial(b.address());
    run_all(network);
    REQUIRE(a.heard.up[b.id()] == 1);
    REQUIRE(b.heard.up[a.id()] == 1);
    for (uint64_t i = 0; i < 100; ++i) {
      REQUIRE(a.send(b, i, 8 * (i % 7)));
      REQUIRE(b.send(a, i));
    }
    run_all(network);
    std::vector<uint64_t> expected;
    for (uint64_t i = 0; i < 100; ++i) expected.push_back(i);
    CHECK(b.heard.received[a.id()] == expected);
    CHECK(a.heard.received[b.id()] == expected);
    CHECK(b.heard.body.size() == 8 * (99 % 7));
    CHECK(b.link->stats().frames_received == 100);
  }

  TEST_CASE("frames sent inside on_peer_up never arrive before the other side is up") {
    struct eager final : net::transport_handler {
      net::transport* link = nullptr;
      std::vector<std::string> lines;
      void on_peer_up(const net::peer_info& peer) override {
        lines.emplace_back("up");
        CHECK(link->send(peer.id, {}));
      }
      void on_peer_down(const node_id&, const failure&) override { lines.emplace_back("down"); }
      void on_frame(const node_id&, const net::incoming_frame&) override {
        lines.emplace_back("frame");
      }
      void on_dial_failed(const std::string&, const failure&) override {}
      void on_event(const std::string&, const std::string&) override {}
    };
    for (uint64_t seed = 0; seed < 50; ++seed) {
      CAPTURE(seed);
      net::loop_network network{seed, {}};
      eager one, two;
      const auto a = network.make_transport({{1, 1}, 1, "a", "c", ""});
      const auto b = network.make_transport({{2, 2}, 1, "b", "c", ""});
      one.link = a.get();
      two.link = b.get();
      REQUIRE(a->start(one));
      REQUIRE(b->start(two));
      a->dial("b");
      run_all(network);
      CHECK(one.lines == std::vector<std::string>{"up", "frame"});
      CHECK(two.lines == std::vector<std::string>{"up", "frame"});
    }
  }

  TEST_CASE("simultaneous and repeated dials leave one link per pair") {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      CAPTURE(seed);
      net::loop_network network{seed, {}};
      loop_peer a{network, 1}, b{network, 2};
      a.link->dial(b.address());
      b.link->dial(a.address());
      a.link->dial(b.address());
      a.link->dial(a.address());
      run_all(network);
      b.link->dial(a.address());
      run_all(network);
      CHECK(a.heard.lines == std::vector<std::string>{"up node2"});
      CHECK(b.heard.lines == std::vector<std::string>{"up node1"});
    }
  }

  TEST_CASE("a dial to nobody, to another cluster or with another secret fails with the reason") {
    net::loop_network network{1, {}};
    loop_peer a{network, 1, "secret"}, b{network, 2, "other"}, c{network, 3, "secret", "elsewhere"};
    a.link->dial("nowhere");
    run_all(network);
    CHECK(a.heard.last_dial.code == error_code::unreachable);
    for (const loop_peer* target : {&b, &c}) {
      a.link->dial(target->address());
      run_all(network);
      CHECK(a.heard.last_dial.code == error_code::unauthenticated);
      CHECK(target->heard.lines == std::vector<std::string>{"event net.link.refused"});
      CHECK(target->link->stats().links_refused == 1);
    }
    CHECK(a.heard.up.empty());
  }

  TEST_CASE("the send queue is bounded, and room comes back when frames arrive") {
    net::loop_options options;
    options.send_queue_bytes = 1024;
    net::loop_network network{1, options};
    loop_peer a{network, 1}, b{network, 2};
    CHECK(a.send(b, 0).error().code == error_code::unreachable);
    a.link->dial(b.address());
    run_all(network);
    REQUIRE(a.send(b, 0, 4096));  // one frame always fits
    CHECK(a.send(b, 1).error().code == error_code::no_capacity);
    run_all(network);
    CHECK(a.send(b, 2));
    const std::vector<std::byte> huge(limits::max_frame_bytes + 8);
    CHECK(a.link->send(b.id(), {{}, huge, {}}).error().code == error_code::too_large);
  }

  TEST_CASE("the link table is bounded") {
    net::loop_options options;
    options.max_links = 1;
    net::loop_network network{1, options};
    loop_peer a{network, 1}, b{network, 2}, c{network, 3};
    a.link->dial(b.address());
    run_all(network);
    c.link->dial(a.address());
    run_all(network);
    CHECK(c.heard.last_dial.code == error_code::no_capacity);
    CHECK(a.heard.up.size() == 1);
  }

  TEST_CASE("an idle network has no events, also after a read that had a deadline") {
    net::loop_network network{1, {}};
    loop_peer a{network, 1}, b{network, 2};
    CHECK_FALSE(network.next_event_time());
    a.link->dial(b.address());
    run_all(network);
    std::vector<std::byte> memory(4096, std::byte{7}), into(4096);
    const auto region = b.link->register_memory(memory);
    REQUIRE(region);
    int done = 0;
    a.link->read(b.id(), {region->key, 0, 4096}, into, 30s, [&](const result<void>& how) {
      CHECK(how);
      ++done;
    });
    run_all(network);
    CHECK(done == 1);
    CHECK(into == memory);
    CHECK(network.now() < 1s);
  }

  TEST_CASE("a read outside the region, of an unknown region or into a wrong size is refused") {
    net::loop_network network{1, {}};
    loop_peer a{network, 1}, b{network, 2};
    a.link->dial(b.address());
    run_all(network);
    std::vector<std::byte> memory(64), into(16);
    const auto region = b.link->register_memory(memory);
    REQUIRE(region);
    const auto read = [&](const node_id& from, const net::remote_span& what) {
      error_code code = error_code::internal;
      a.link->read(from, what, into, 1s, [&](const result<void>& how) {
        code = how ? error_code::ok : how.error().code;
      });
      run_all(network);
      return code;
    };
    CHECK(read(b.id(), {region->key, 48, 16}) == error_code::ok);
    CHECK(read(b.id(), {region->key, 49, 16}) == error_code::invalid_argument);
    CHECK(read(b.id(), {region->key, UINT64_MAX - 8, 16}) == error_code::invalid_argument);
    CHECK(read(b.id(), {region->key + 1, 0, 16}) == error_code::invalid_argument);
    CHECK(read(b.id(), {region->key, 0, 8}) == error_code::invalid_argument);
    CHECK(read(node_id{9, 9}, {region->key, 0, 16}) == error_code::unreachable);
    b.link->unregister(*region);
    CHECK(read(b.id(), {region->key, 0, 16}) == error_code::invalid_argument);
  }

  TEST_CASE("a node reads from itself") {
    net::loop_network network{1, {}};
    loop_peer a{network, 1};
    std::vector<std::byte> memory(64, std::byte{3}), into(64);
    const auto region = a.link->register_memory(memory);
    bool done = false;
    a.link->read(a.id(), {region->key, 0, 64}, into, 1s,
                 [&](const result<void>& how) { done = how.has_value(); });
    CHECK_FALSE(done);
    run_all(network);
    CHECK(done);
    CHECK(into == memory);
  }

  TEST_CASE("tasks run at the present time, in order") {
    net::loop_network network{1, {}};
    loop_peer a{network, 1};
    std::vector<int> order;
    a.link->post([&] { order.push_back(1); });
    a.link->post([&] { order.push_back(2); });
    CHECK(order.empty());
    run_all(network);
    CHECK(order == std::vector<int>{1, 2});
    CHECK(network.now() == 0ns);
  }
}
