#include "tests/actor/remote/clerk.hpp"
#include "tests/support/remote_world.hpp"

#include <caf/send.hpp>
#include <doctest/doctest.h>

#include <vector>

using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

namespace {

/// A clerk on `b`; on `a` a handle for it and somebody who is told of ends.
struct watched_clerk {
  remote_world world;
  remote_node& a = world.start("a:1");
  remote_node& b = world.start("b:1");
  clerk_actor local = b.world.system.spawn(clerk, &b.hub);
  actor_ref ref = *b.hub.export_actor(local);
  clerk_actor remote = *a.hub.resolve<clerk_actor>(ref);
  caf::actor observer = a.world.system.spawn(watcher);

  watcher_state& seen() { return watcher_of(observer)->state; }
  void monitor() {
    watcher_of(observer)->monitor(remote);
    world.run();
  }
  void link() {
    watcher_of(observer)->link_to(remote);
    world.run();
  }
  void end(caf::exit_reason reason) {
    b.world.self->send(local, cancel(static_cast<uint32_t>(reason)));
    world.run();
  }
};

}  // namespace

TEST_SUITE("actors/remote") {
  TEST_CASE_FIXTURE(watched_clerk, "a monitor is told once when the actor ends, and why") {
    monitor();
    end(caf::exit_reason::user_shutdown);
    REQUIRE(seen().downs.size() == 1);
    CHECK(seen().downs[0].code == error_code::cancelled);
    world.advance(10s);
    world.network.kill("b:1");
    world.advance(10s);
    CHECK(seen().downs.size() == 1);
  }

  TEST_CASE_FIXTURE(watched_clerk, "two monitors are each told once") {
    monitor();
    const auto second = a.world.system.spawn(watcher);
    watcher_of(second)->monitor(remote);
    world.run();
    end(caf::exit_reason::kill);
    CHECK(seen().downs.size() == 1);
    CHECK(watcher_of(second)->state.downs.size() == 1);
    CHECK(b.hub.stats().received[size_t(wire::frame_kind::monitor)] == 1);
  }

  TEST_CASE_FIXTURE(watched_clerk, "a monitor of an actor that had ended is told at once") {
    end(caf::exit_reason::user_shutdown);
    monitor();
    REQUIRE(seen().downs.size() == 1);
    CHECK(seen().downs[0].code == error_code::not_found);
  }

  TEST_CASE_FIXTURE(watched_clerk, "a monitored actor's handle is kept until the news comes") {
    monitor();
    remote = nullptr;
    world.run();
    CHECK(a.hub.stats().proxies == 1);
    end(caf::exit_reason::user_shutdown);
    CHECK(seen().downs.size() == 1);
    CHECK(a.hub.stats().proxies == 0);
  }

  TEST_CASE_FIXTURE(watched_clerk, "who no longer monitors is not told, and may start again") {
    monitor();
    watcher_of(observer)->demonitor(remote.address());
    world.run();
    CHECK(b.hub.stats().received[size_t(wire::frame_kind::unmonitor)] == 1);
    for (int i = 0; i < 100; ++i) {  // nothing piles up at the actor or its hub
      monitor();
      watcher_of(observer)->demonitor(remote.address());
      world.run();
    }
    monitor();
    end(caf::exit_reason::user_shutdown);
    CHECK(seen().downs.size() == 1);
    CHECK(a.hub.stats().received[size_t(wire::frame_kind::down)] == 1);
  }

  TEST_CASE_FIXTURE(watched_clerk, "the end of an old handle leaves its successor alone") {
    monitor();
    end(caf::exit_reason::user_shutdown);
    const auto again = *a.hub.resolve<clerk_actor>(ref);
    CHECK(again == remote);  // the same actor to CAF, but another handle
    CHECK(world.ask<msg<Ping>>(a, remote, ping(1)).error().code == error_code::unreachable);
    CHECK(world.ask<msg<Ping>>(a, again, ping(1)).error().code == error_code::not_found);
    remote = nullptr;
    world.run();
    CHECK(a.hub.stats().proxies == 1);
    CHECK(*a.hub.resolve<clerk_actor>(ref) == again);
  }

  TEST_CASE_FIXTURE(watched_clerk, "after the end, sends bounce at once") {
    monitor();
    end(caf::exit_reason::user_shutdown);
    const uint64_t sent = a.hub.stats().sent;
    CHECK(world.ask<msg<Ping>>(a, remote, ping(1)).error().code == error_code::unreachable);
    a.world.self->send(remote, report(1));
    CHECK(a.hub.stats().sent == sent);
    CHECK(a.hub.stats().dropped == 1);
  }

  TEST_CASE_FIXTURE(watched_clerk, "linked actors share their end, from there to here") {
    link();
    end(caf::exit_reason::user_shutdown);
    REQUIRE(seen().exits.size() == 1);
    CHECK(seen().exits[0].code == error_code::cancelled);
  }

  TEST_CASE_FIXTURE(watched_clerk, "linked actors share their end, from here to there") {
    const auto on_b = b.world.system.spawn(watcher);
    const auto handle = *a.hub.resolve<caf::actor>(*b.hub.export_actor(on_b));
    watcher_of(observer)->link_to(handle);
    world.run();
    a.world.self->send(observer, cancel(static_cast<uint32_t>(caf::exit_reason::user_shutdown)));
    world.run();
    REQUIRE(watcher_of(on_b)->state.exits.size() == 1);
    CHECK(watcher_of(on_b)->state.exits[0].code == error_code::cancelled);
    world.network.kill("a:1");
    world.advance(10s);
    CHECK(watcher_of(on_b)->state.exits.size() == 1);
  }

  TEST_CASE_FIXTURE(watched_clerk, "a kill crosses as a kill, a normal exit as a normal exit") {
    SUBCASE("kill") {  // which is fatal even to an actor that handles exits
      const auto on_b = b.world.system.spawn(watcher);
      const auto handle = *a.hub.resolve<caf::actor>(*b.hub.export_actor(on_b));
      watcher_of(observer)->monitor(handle);
      caf::anon_send_exit(handle, caf::exit_reason::user_shutdown);
      world.run();
      CHECK(seen().downs.empty());
      caf::anon_send_exit(handle, caf::exit_reason::kill);
      world.run();
      REQUIRE(seen().downs.size() == 1);
      CHECK_FALSE(seen().normal[0]);
    }
    SUBCASE("normal") {
      const auto short_lived =
          b.world.system.spawn([](caf::event_based_actor* self) -> caf::behavior {
            return {[self](const msg<Ping>&) { self->quit(); }};
          });
      const auto handle = *a.hub.resolve<caf::actor>(*b.hub.export_actor(short_lived));
      watcher_of(observer)->monitor(handle);
      watcher_of(observer)->link_to(handle);
      world.run();
      a.world.self->send(handle, ping(1));
      world.run();
      REQUIRE(seen().downs.size() == 1);
      CHECK(seen().normal[0]);
      REQUIRE(seen().exits.size() == 1);
      CHECK(seen().exits[0].detail == "ended normally");
    }
  }

  TEST_CASE_FIXTURE(watched_clerk, "an unlinked actor survives the other's node") {
    link();
    watcher_of(observer)->unlink_from(remote);
    world.run();
    world.network.kill("b:1");
    world.advance(10s);
    CHECK(seen().exits.empty());
  }

  TEST_CASE_FIXTURE(watched_clerk, "death of a node: requests, monitors and links end, once each") {
    const auto open = a.world.start_ask<msg<Ping>>(remote, ping(501));
    monitor();
    link();
    world.run();
    REQUIRE_FALSE(open.ready());
    world.network.kill("b:1");
    world.run();
    REQUIRE(open.ready());
    CHECK(open.get().error().code == error_code::unreachable);
    REQUIRE(seen().downs.size() == 1);
    CHECK(seen().downs[0].code == error_code::unreachable);
    REQUIRE(seen().exits.size() == 1);
    CHECK(seen().exits[0].code == error_code::unreachable);
    CHECK(a.downs == std::vector<node_id>{ref.node});
    world.advance(30s);
    CHECK(seen().downs.size() == 1);
    CHECK(seen().exits.size() == 1);
    CHECK(a.hub.stats().pending == 0);
    CHECK(a.hub.stats().proxies == 0);
    // afterwards: the old handle and the old ref are as good as gone
    CHECK(world.ask<msg<Ping>>(a, remote, ping(1)).error().code == error_code::unreachable);
    CHECK(a.hub.resolve<clerk_actor>(ref).error().code == error_code::unreachable);
  }

  TEST_CASE_FIXTURE(watched_clerk, "death of the linking node ends the linked actor") {
    const auto on_b = b.world.system.spawn(watcher);
    const auto handle = *a.hub.resolve<caf::actor>(*b.hub.export_actor(on_b));
    watcher_of(observer)->link_to(handle);
    world.run();
    world.network.kill("a:1");
    world.run();
    REQUIRE(watcher_of(on_b)->state.exits.size() == 1);
    CHECK(watcher_of(on_b)->state.exits[0].code == error_code::unreachable);
  }

  TEST_CASE_FIXTURE(watched_clerk, "a restarted node is never taken for its earlier life") {
    monitor();
    world.network.kill("b:1");
    world.run();
    auto& again = world.start("b:1");
    // the same number on purpose: a new process counts its actors from the start
    const auto successor = again.world.system.spawn(clerk, &again.hub);
    const auto new_ref = *again.hub.export_actor(successor);
    REQUIRE(new_ref.actor == ref.actor);
    const auto stale = a.hub.resolve<clerk_actor>(ref);
    REQUIRE_FALSE(stale);
    CHECK(stale.error().code == error_code::stale_epoch);
    CHECK(world.ask<msg<Ping>>(a, remote, ping(1)).error().code == error_code::unreachable);
    a.world.self->send(remote, report(5));
    world.run();
    CHECK(state_of(successor).numbers.empty());
    const auto fresh = *a.hub.resolve<clerk_actor>(new_ref);
    CHECK(world.ask<msg<Ping>>(a, fresh, ping(1)));
    CHECK(seen().downs.size() == 1);
  }

  TEST_CASE_FIXTURE(watched_clerk, "a partition ends both sides; after it heals, resolve again") {
    const auto on_b = b.world.system.spawn(watcher);
    watcher_of(on_b)->monitor(
        *b.hub.resolve<clerk_actor>(*a.hub.export_actor(a.world.system.spawn(clerk, &a.hub))));
    monitor();
    const auto open = a.world.start_ask<msg<Ping>>(remote, ping(501));
    world.run();
    world.network.partition({"a:1"}, {"b:1"});
    world.advance(1s);
    CHECK(seen().downs.empty());  // a pause is no death
    world.advance(9s);
    CHECK(seen().downs.size() == 1);
    CHECK(watcher_of(on_b)->state.downs.size() == 1);
    CHECK(open.get().error().code == error_code::unreachable);
    world.network.heal();
    a.transport->dial("b:1");
    world.advance(1s);
    CHECK(a.ups.size() == 2);
    CHECK(world.ask<msg<Ping>>(a, remote, ping(1)).error().code == error_code::unreachable);
    const auto again = a.hub.resolve<clerk_actor>(ref);  // the same life: the ref is good
    REQUIRE(again);
    CHECK(world.ask<msg<Ping>>(a, *again, ping(1)));
  }

  TEST_CASE_FIXTURE(watched_clerk, "handles outlive their hub and bounce") {
    monitor();
    const auto open = a.world.start_ask<msg<Ping>>(remote, ping(501));
    world.run();
    a.transport->stop();
    a.hub.stop();
    a.world.run();
    CHECK(open.get().error().code == error_code::unreachable);
    CHECK(seen().downs.size() == 1);
    const auto later = a.world.ask<msg<Ping>>(remote, ping(1));
    CHECK(later.error().code == error_code::unreachable);
    watcher_of(observer)->monitor(remote);
    a.world.run();
    CHECK(seen().downs.size() == 2);
  }

  TEST_CASE_FIXTURE(watched_clerk, "a stopped hub keeps no actor alive") {
    b.world.self->monitor(local);
    local = nullptr;
    world.run();
    b.transport->stop();
    b.hub.stop();
    b.world.run();
    CHECK(b.world.received<caf::down_msg>());
    CHECK(b.hub.stats().exports == 0);
  }

  TEST_CASE("whatever the order of events, every request ends once and every monitor fires once") {
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      CAPTURE(seed);
      net::loop_options slow;
      slow.loss_per_million = seed % 2 == 0 ? 2000 : 0;
      remote_world world{seed, slow};
      auto& a = world.start("a:1");
      auto& b = world.start("b:1");
      world.advance(1s);
      a.world.shuffle(seed);
      b.world.shuffle(seed + 1);
      if (!a.hub.resolve<caf::actor>(actor_ref{b.id(), 1, 0})) continue;  // the hello was lost
      test::rng random{seed};
      const auto local = b.world.system.spawn(clerk, &b.hub);
      const auto remote = *a.hub.resolve<clerk_actor>(*b.hub.export_actor(local));
      const auto observer = a.world.system.spawn(watcher);
      watcher_of(observer)->monitor(remote);
      std::vector<actor_world::pending_answer<msg<Ping>>> open;
      for (int i = 0; i < 200; ++i) {
        open.push_back(a.world.start_ask<msg<Ping>>(remote, ping(random.below(600))));
        if (random.below(4) == 0) world.advance(std::chrono::microseconds{random.below(100)});
      }
      if (random.below(2) == 0) world.network.kill("b:1");
      world.advance(10s);
      if (random.below(2) == 0) b.world.self->send(local, cancel(4));
      world.advance(10s);
      world.network.kill("b:1");
      world.advance(10s);
      for (const auto& answer : open) CHECK(answer.ready());
      CHECK(watcher_of(observer)->state.downs.size() == 1);
      CHECK(a.hub.stats().pending == 0);
      CHECK(a.hub.stats().proxies == 0);
      // The clerk may keep promises, which keep the clerk.
      caf::anon_send_exit(local, caf::exit_reason::user_shutdown);
      world.run();
    }
  }
}
