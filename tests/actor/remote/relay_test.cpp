#include "tests/actor/remote/clerk.hpp"
#include "tests/support/remote_world.hpp"

#include <caf/response_promise.hpp>
#include <doctest/doctest.h>

using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

namespace {

/// Passes every Ping and plain report on to somebody else.
caf::behavior forwarder(caf::event_based_actor* self, const clerk_actor& to) {
  return {
      [self, to](const msg<Ping>& m) { return self->delegate(to, m); },
      [self, to](const msg<wire::LoadReport>& m) { return self->delegate(to, m); },
  };
}

/// `a` asks a forwarder on `b`, which delegates to a clerk on `c`.
struct three_nodes {
  explicit three_nodes(const remote_config& of_b = {},
                       const net::loop_options& network = remote_world::instant())
      : world(1, network),
        a(world.start("a:1")),
        b(world.start("b:1", of_b)),
        c(world.start("c:1")) {
    local = c.world.system.spawn(clerk, &c.hub);
    const auto seen_by_b = *b.hub.resolve<clerk_actor>(*c.hub.export_actor(local));
    relay = b.world.system.spawn(forwarder, seen_by_b);
    remote = *a.hub.resolve<caf::actor>(*b.hub.export_actor(relay));
  }

  remote_world world;
  remote_node& a;
  remote_node& b;
  remote_node& c;
  clerk_actor local;
  caf::actor relay;
  caf::actor remote;
};

}  // namespace

TEST_SUITE("actors/remote") {
  TEST_CASE_FIXTURE(three_nodes, "a delegated request is answered over the node between") {
    const auto answer = world.ask<msg<Ping>>(a, remote, ping(1));
    REQUIRE(answer);
    CHECK(answer->get().getNumber() == 2);
    const auto failed = world.ask<msg<Ping>>(a, remote, ping(1004));
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code == error_code::no_capacity);
    CHECK(failed.error().detail == "as ordered");
    CHECK(b.hub.stats().relayed == 2);
    CHECK(a.hub.stats().pending + b.hub.stats().pending + c.hub.stats().pending == 0);
  }

  TEST_CASE("many delegated requests never get each other's answers") {
    three_nodes nodes{{}, {}};  // with delays, so that all are open at a time
    auto& [world, a, b, c, local, relay, remote] = nodes;
    std::vector<actor_world::pending_answer<msg<Ping>>> open;
    // Asker actors of `a` and of `d` have the same ids and the same request ids.
    auto& d = world.start("d:1");
    const auto from_d = *d.hub.resolve<caf::actor>(*b.hub.export_actor(relay));
    for (uint64_t n = 0; n < 200; ++n) {
      open.push_back(a.world.start_ask<msg<Ping>>(remote, ping(n)));
      open.push_back(d.world.start_ask<msg<Ping>>(from_d, ping(200 + n)));
    }
    world.advance(10ms);
    CHECK(b.hub.stats().relayed == 400);
    for (uint64_t i = 0; i < open.size(); ++i) {
      REQUIRE(open[i].get());
      CHECK(open[i].get()->get().getNumber() == (i % 2) * 200 + i / 2 + 1);
    }
  }

  TEST_CASE_FIXTURE(three_nodes, "a delegated request fails when the last node dies") {
    const auto open = a.world.start_ask<msg<Ping>>(remote, ping(501));
    world.run();
    REQUIRE_FALSE(open.ready());
    world.network.kill("c:1");
    world.run();
    REQUIRE(open.ready());
    CHECK(open.get().error().code == error_code::unreachable);
  }

  TEST_CASE_FIXTURE(three_nodes, "a delegated request fails when the node between dies") {
    const auto open = a.world.start_ask<msg<Ping>>(remote, ping(501));
    world.run();
    world.network.kill("b:1");
    world.run();
    REQUIRE(open.ready());
    CHECK(open.get().error().code == error_code::unreachable);
  }

  TEST_CASE_FIXTURE(three_nodes, "a delegated request whose caller is gone is forgotten") {
    const auto open = a.world.start_ask<msg<Ping>>(remote, ping(500));
    world.run();
    CHECK(b.hub.stats().pending == 1);
    world.network.kill("a:1");
    world.run();
    c.world.self->send(local, cancel());
    world.run();
    CHECK(b.hub.stats().pending == 0);
    CHECK(b.hub.stats().proxies == 1);  // the forwarder's handle for the clerk
  }

  TEST_CASE_FIXTURE(three_nodes, "a plain message of a third node arrives, without its sender") {
    a.world.self->send(remote, report(9));
    world.run();
    CHECK(state_of(local).numbers == std::vector<uint64_t>{9});
    CHECK(b.hub.stats().without_sender == 1);
  }

  TEST_CASE("one delegated request over the limit is answered no_capacity") {
    three_nodes nodes{{.max_relays = 3}};
    std::vector<actor_world::pending_answer<msg<Ping>>> open;
    for (int i = 0; i < 4; ++i)
      open.push_back(nodes.a.world.start_ask<msg<Ping>>(nodes.remote, ping(500)));
    nodes.world.run();
    for (int i = 0; i < 3; ++i) CHECK_FALSE(open[i].ready());
    REQUIRE(open[3].ready());
    CHECK(open[3].get().error().code == error_code::no_capacity);
    nodes.c.world.self->send(nodes.local, cancel());
    nodes.world.run();
    for (int i = 0; i < 3; ++i) CHECK(open[i].get());
    CHECK(nodes.world.ask<msg<Ping>>(nodes.a, nodes.remote, ping(1)));  // room again
  }
}
