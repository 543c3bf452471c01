#include "tests/integration/net/probe.hpp"
#include "tests/integration/net/process.hpp"

#include <thread>

using namespace deepinfer;
using namespace deepinfer::test;

TEST_SUITE("runtime/net/fabric") {
  TEST_CASE("another secret or cluster is refused, the dialer learns why") {
    for (const bool secret : {true, false}) {
      CAPTURE(secret);
      live_node a{test_config(1)};
      net::fabric_config config = test_config(2);
      (secret ? config.secret : config.cluster) = "another";
      live_node b{config};
      b.link->dial(a.link->address());
      REQUIRE(b.heard.wait([&] { return b.heard.dials_failed == 1; }));
      CHECK(b.heard.last_dial.code == error_code::unauthenticated);
      CHECK(b.heard.last_dial_address == a.link->address());
      REQUIRE(a.heard.wait([&] { return a.heard.events["net.link.refused"] == 1; }));
      CHECK(a.heard.up.empty());
      CHECK(b.heard.up.empty());
      CHECK(a.link->stats().links_refused == 1);
    }
  }

  TEST_CASE("a dial that leads nowhere fails with a reason, and within its time") {
    net::fabric_config config = test_config(1);
    config.dial_timeout = 1s;
    live_node a{config};
    int expected = 0;
    for (const std::string& address :
         {std::string{"127.0.0.1:1"}, std::string{"nonsense"}, std::string{"127.0.0.1:0"},
          std::string{"no-such-host.invalid:7400"}, std::string(300, 'x') + ":1"}) {
      CAPTURE(address);
      a.link->dial(address);
      ++expected;
      REQUIRE(a.heard.wait([&] { return a.heard.dials_failed == expected; }));
      CHECK(a.heard.last_dial_address == address);
      CHECK((a.heard.last_dial.code == error_code::unreachable ||
             a.heard.last_dial.code == error_code::invalid_argument));
    }
  }

  TEST_CASE("a name is resolved, and each of its addresses tried") {
    live_node a{test_config(1)}, b{test_config(2)};
    const auto port = b.link->address().substr(b.link->address().find(':'));
    a.link->dial("localhost" + port);  // ::1 first on many machines, where nobody listens
    REQUIRE(a.wait_up(b.id()));
    CHECK(a.heard.address[b.id()] == b.link->address());
    CHECK(a.heard.dials_failed == 0);
  }

  TEST_CASE("dialling oneself or a linked peer changes nothing") {
    live_node a{test_config(1)}, b{test_config(2)};
    a.connect(b);
    const auto port = [](live_node& n) {
      return n.link->address().substr(n.link->address().find(':'));
    };
    a.link->dial(a.link->address());
    a.link->dial("localhost" + port(a));
    a.link->dial(b.link->address());
    a.link->dial("localhost" + port(b));
    b.link->dial("localhost" + port(a));
    live_node c{test_config(3)};
    a.connect(c);  // behind the others
    REQUIRE(a.send(b.id(), 1));
    REQUIRE(b.wait_frames(1));
    const std::lock_guard lock{a.heard.mutex};
    CHECK(a.heard.up[b.id()] == 1);
    CHECK(a.heard.down.empty());
    CHECK(a.heard.dials_failed == 0);
  }

  TEST_CASE("two nodes that dial each other at once get one link") {
    for (int round = 0; round < 60; ++round) {
      CAPTURE(round);
      live_node a{test_config(1)}, b{test_config(2)};
      if (round % 2 == 0) {
        a.link->dial(b.link->address());
        b.link->dial(a.link->address());
      } else {
        b.link->dial(a.link->address());
        a.link->dial(b.link->address());
      }
      REQUIRE(a.wait_up(b.id()));
      REQUIRE(b.wait_up(a.id()));
      for (uint64_t i = 0; i < 10; ++i) {
        REQUIRE(a.send(b.id(), i));
        REQUIRE(b.send(a.id(), i));
      }
      REQUIRE(a.wait_frames(10));
      REQUIRE(b.wait_frames(10));
      for (live_node* node : {&a, &b}) {
        const std::lock_guard lock{node->heard.mutex};
        CHECK(node->heard.down.empty());
        CHECK(node->heard.dials_failed == 0);
        CHECK(node->heard.up.begin()->second == 1);
      }
    }
  }

  TEST_CASE("many nodes that all dial all form a full mesh") {
    constexpr uint64_t count = 8;
    std::vector<std::unique_ptr<live_node>> nodes;
    for (uint64_t i = 1; i <= count; ++i)
      nodes.push_back(std::make_unique<live_node>(test_config(i)));
    for (auto& from : nodes)
      for (auto& to : nodes) from->link->dial(to->link->address());
    for (auto& from : nodes) {
      for (auto& to : nodes)
        if (from != to) REQUIRE(from->wait_up(to->id()));
      const std::lock_guard lock{from->heard.mutex};
      CHECK(from->heard.up.size() == count - 1);
      CHECK(from->heard.down.empty());
      CHECK(from->heard.dials_failed == 0);
    }
  }

  TEST_CASE("the link table is bounded, and the refused dialer learns why") {
    net::fabric_config config = test_config(1);
    config.max_links = 1;
    live_node a{config}, b{test_config(2)}, c{test_config(3)};
    b.connect(a);
    c.link->dial(a.link->address());
    REQUIRE(c.heard.wait([&] { return c.heard.dials_failed == 1; }));
    CHECK(c.heard.last_dial.code == error_code::no_capacity);
  }

  TEST_CASE("a killed peer is noticed by the broken connection, once") {
    peer_process peer{{"60"}};
    net::fabric_config config = test_config(1);
    config.dead_after = 60s;  // so that silence cannot be the cause
    live_node a{config};
    a.link->dial(peer.address);
    const node_id id{0xABCD, 60};
    REQUIRE(a.wait_up(id));
    REQUIRE(a.wait_frames(1));
    peer.signal(SIGKILL);
    REQUIRE(a.wait_down(id));
    CHECK(a.heard.last_down.code == error_code::unreachable);
    CHECK(a.send(id, 1).error().code == error_code::unreachable);
    a.link->dial(peer.address);
    REQUIRE(a.heard.wait([&] { return a.heard.dials_failed == 1; }));
    CHECK(a.heard.down[id] == 1);
  }

  TEST_CASE("a frozen peer is noticed by its silence within three seconds, once") {
    peer_process peer{{"61"}};
    live_node a{test_config(1)};
    a.link->dial(peer.address);
    const node_id id{0xABCD, 61};
    REQUIRE(a.wait_up(id));
    REQUIRE(a.wait_frames(1));
    peer.freeze();
    const auto start = std::chrono::steady_clock::now();
    REQUIRE(a.wait_down(id));
    const auto took = std::chrono::steady_clock::now() - start;
    MESSAGE("noticed after ", std::chrono::duration<double>(took).count(), " s");
    CHECK(took > 1500ms);
    CHECK(took < 4s);  // 3 s, and a second for a busy machine
    CHECK(a.heard.last_down.code == error_code::unreachable);
    // thawed, it finds its link closed and can be dialled again
    peer.signal(SIGCONT);
    REQUIRE(a.heard.wait([&] {
      a.link->dial(peer.address);
      return a.heard.up[id] == 2;
    }));
    CHECK(a.heard.down[id] == 1);
  }

  TEST_CASE("an idle link stays up beyond the time of silence") {
    net::fabric_config one = test_config(1), two = test_config(2);
    one.heartbeat_interval = two.heartbeat_interval = 20ms;
    one.dead_after = two.dead_after = 400ms;
    live_node a{one}, b{two};
    a.connect(b);
    CHECK_FALSE(a.heard.wait([&] { return a.heard.down[b.id()] > 0; }, 2s));
    CHECK(a.link->stats().frames_sent > 20);
  }

  TEST_CASE("a restarted process is another node") {
    live_node a{test_config(1)};
    net::fabric_config config = test_config(2);
    auto old = std::make_unique<live_node>(config);
    old->connect(a);
    const std::string address = old->link->address();
    const node_id former = old->id();
    old.reset();
    REQUIRE(a.wait_down(former));
    config.node.lo = 20;
    config.epoch = 21;
    config.listen_port = static_cast<uint16_t>(std::stoi(address.substr(address.find(':') + 1)));
    config.port_may_move = false;
    live_node again{config};
    CHECK(again.link->address() == address);
    a.link->dial(address);
    REQUIRE(a.wait_up(again.id()));
    CHECK(a.send(former, 1).error().code == error_code::unreachable);
  }

  TEST_CASE("a taken default port gives way to the next, a named one does not") {
    net::fabric_config config = test_config(1);
    config.listen_port = 7400;
    live_node a{config};
    config.node.lo = 2;
    live_node b{config};
    CHECK(a.link->address() != b.link->address());
    config.node.lo = 3;
    config.listen_port =
        static_cast<uint16_t>(std::stoi(a.link->address().substr(a.link->address().find(':') + 1)));
    config.port_may_move = false;
    CHECK(net::make_fabric_transport(config).error().code == error_code::no_capacity);
  }

  TEST_CASE("a wrong configuration is refused with the reason") {
    const auto code_of = [](const net::fabric_config& config) {
      const auto made = net::make_fabric_transport(config);
      return made ? error_code::ok : made.error().code;
    };
    net::fabric_config config = test_config(1);
    config.secret.clear();
    CHECK(code_of(config) == error_code::ok);
    config.listen_host = "0.0.0.0";
    CHECK(code_of(config) == error_code::invalid_argument);
    config.secret = "x";
    CHECK(code_of(config) == error_code::ok);
    config.advertise_host = std::string(130, 'a');
    CHECK(code_of(config) == error_code::invalid_argument);
    config = test_config(1);
    config.node = {};
    CHECK(code_of(config) == error_code::invalid_argument);
    config = test_config(1);
    config.provider = "nosuchprovider";
    CHECK(code_of(config) == error_code::unsupported);
    config = test_config(1);
    config.dead_after = config.heartbeat_interval;
    CHECK(code_of(config) == error_code::invalid_argument);
    config = test_config(1);
    config.listen_host = "192.0.2.1";  // of nobody (RFC 5737)
    CHECK(code_of(config) != error_code::ok);
  }

  TEST_CASE("tasks run on the transport's thread") {
    live_node a{test_config(1)};
    bool there = false, done = false;
    CHECK_FALSE(a.link->on_transport_thread());
    a.link->post([&] {
      a.heard.change([&] {
        there = a.link->on_transport_thread();
        done = true;
      });
    });
    REQUIRE(a.heard.wait([&] { return done; }));
    CHECK(there);
  }
}
