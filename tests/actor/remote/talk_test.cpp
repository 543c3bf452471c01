#include "tests/actor/remote/clerk.hpp"
#include "tests/support/remote_world.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t clerk_number = 7;

/// A clerk on node `b`, and a handle for it on node `a`.
struct two_nodes {
  remote_world world;
  remote_node& a = world.start("a:1");
  remote_node& b = world.start("b:1");
  clerk_actor local = b.world.system.spawn(clerk, &b.hub);
  clerk_actor remote = make_handle();

  clerk_actor make_handle() {
    REQUIRE(b.hub.publish(clerk_number, local));
    return *a.hub.well_known<clerk_actor>(b.id(), clerk_number);
  }
};

}  // namespace

TEST_SUITE("actors/remote") {
  TEST_CASE_FIXTURE(two_nodes, "a request over nodes is answered as a local one") {
    const auto answer = world.ask<msg<Ping>>(a, remote, ping(41));
    REQUIRE(answer);
    CHECK(answer->get().getNumber() == 42);
    CHECK(a.hub.stats().pending == 0);
    CHECK(a.hub.stats().peers == 1);
  }

  TEST_CASE_FIXTURE(two_nodes, "an acknowledgement without content crosses") {
    const auto mine = a.world.system.spawn(clerk, &a.hub);
    const auto done = world.ask<void>(a, remote, subscribe(*a.hub.export_actor(mine)));
    CHECK(done);
  }

  TEST_CASE_FIXTURE(two_nodes, "an empty message arrives as an empty message") {
    const auto answer = world.ask<msg<wire::LocalTopology>>(a, remote, msg<wire::LocalTopology>{});
    REQUIRE(answer);
    CHECK_FALSE(*answer);
  }

  TEST_CASE_FIXTURE(two_nodes, "every error code crosses with its detail") {
    for (uint16_t code = 1; code <= 12; ++code) {
      CAPTURE(code);
      const auto answer = world.ask<msg<Ping>>(a, remote, ping(1000 + code));
      REQUIRE_FALSE(answer);
      CHECK(answer.error().code == error_code_from_wire(code));
      CHECK(answer.error().detail == "as ordered");
    }
  }

  TEST_CASE_FIXTURE(two_nodes, "a timeout is the caller's own, and the late answer is dropped") {
    const auto answer = a.world.start_ask_within<msg<Ping>>(300ms, remote, ping(500));
    world.advance(299ms);
    CHECK_FALSE(answer.ready());
    world.advance(1ms);
    REQUIRE(answer.ready());
    CHECK(answer.get().error().code == error_code::deadline_exceeded);
    b.world.self->send(local, cancel());
    world.run();
    CHECK(answer.get().error().code == error_code::deadline_exceeded);
    CHECK(a.hub.stats().pending == 0);
  }

  TEST_CASE_FIXTURE(two_nodes, "an answer may come later, from a promise") {
    const auto answer = a.world.start_ask<msg<Ping>>(remote, ping(500));
    world.run();
    CHECK_FALSE(answer.ready());
    CHECK(a.hub.stats().pending == 1);
    a.world.self->send(remote, cancel());
    world.run();
    REQUIRE(answer.get());
    CHECK(answer.get()->get().getNumber() == 777);
  }

  TEST_CASE_FIXTURE(two_nodes, "a message the callee has no handler for is unsupported") {
    const auto untyped = *a.hub.resolve<caf::actor>(*b.hub.export_actor(local));
    const auto answer =
        world.ask<msg<Ping>>(a, untyped, wire::draft<wire::MembersQuery>{}.freeze());
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == error_code::unsupported);
  }

  TEST_CASE_FIXTURE(two_nodes, "only registered messages cross; others are refused and counted") {
    const auto untyped = caf::actor_cast<caf::actor>(remote);
    const auto answer = world.ask<msg<Ping>>(a, untyped, std::string{"plain"});
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == error_code::unsupported);
    a.world.self->send(untyped, 1, 2);
    CHECK(a.hub.stats().not_crossing == 2);
    CHECK(a.logged("remote.message.not_crossing"));
  }

  TEST_CASE_FIXTURE(two_nodes, "a typed handle travels inside a message and works there") {
    const auto mine = a.world.system.spawn(clerk, &a.hub);
    CHECK(world.ask<void>(a, remote, subscribe(*a.hub.export_actor(mine))));
    CHECK(state_of(mine).numbers == std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
    CHECK(a.hub.stats().exports == 1);
  }

  TEST_CASE_FIXTURE(two_nodes, "a handle that comes home is the actor itself") {
    const auto ref = *a.hub.export_actor(remote);
    CHECK(ref.node == b.id());
    CHECK(ref.actor == clerk_number);
    const auto home = b.hub.resolve<clerk_actor>(ref);
    REQUIRE(home);
    CHECK(*home == local);
  }

  TEST_CASE_FIXTURE(two_nodes, "a ref of another interface is refused before it is used") {
    using other_actor = caf::typed_actor<caf::replies_to<msg<Ping>>::with<msg<Ping>>>;
    const auto ref = *b.hub.export_actor(local);
    const auto wrong = a.hub.resolve<other_actor>(ref);
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().code == error_code::invalid_argument);
    CHECK_FALSE(a.hub.resolve<clerk_actor>(actor_ref{}));
    CHECK_FALSE(a.hub.export_actor(clerk_actor{}));
  }

  TEST_CASE_FIXTURE(two_nodes, "bodies of any size arrive whole") {
    for (const size_t bytes : {size_t{1}, size_t{100} << 10, size_t{1} << 20, size_t{16} << 20}) {
      CAPTURE(bytes);
      const auto answer = world.ask<msg<wire::LocalTopology>>(a, remote, bulky(bytes));
      REQUIRE(answer);
      CHECK(answer->get().getLog()[0].size() == bytes);
    }
  }

  TEST_CASE_FIXTURE(two_nodes, "20,000 streamed messages arrive once and in order") {
    for (uint64_t n = 0; n < 20'000; ++n) {
      a.world.self->send(remote, report(n));
      if (n % 512 == 0) world.run();
    }
    world.run();
    const auto& got = state_of(local).numbers;
    REQUIRE(got.size() == 20'000);
    bool in_order = true;
    for (uint64_t n = 0; n < got.size(); ++n) in_order = in_order && got[n] == n;
    CHECK(in_order);
  }

  TEST_CASE_FIXTURE(two_nodes, "whoever gets a plain message can answer its sender") {
    const auto echo = b.world.system.spawn([](caf::event_based_actor* self) -> caf::behavior {
      return {[self](const msg<Ping>& m) {
        self->send(caf::actor_cast<caf::actor>(self->current_sender()), m);
      }};
    });
    const auto to = *a.hub.resolve<caf::actor>(*b.hub.export_actor(echo));
    a.world.self->send(to, ping(3));
    world.run();
    const auto back = a.world.received<msg<Ping>>();
    REQUIRE(back);
    CHECK(back->get().getNumber() == 3);
  }

  TEST_CASE_FIXTURE(two_nodes, "a request to an actor that is not there is not_found") {
    const auto nobody = *a.hub.well_known<clerk_actor>(b.id(), 99);
    const auto answer = world.ask<msg<Ping>>(a, nobody, ping(1));
    REQUIRE_FALSE(answer);
    CHECK(answer.error().code == error_code::not_found);
    a.world.self->send(nobody, report(1));
    world.run();
    CHECK(b.hub.stats().bounced == 1);
    CHECK(b.hub.stats().dropped == 1);
    CHECK(b.logged("remote.message.dropped"));
  }

  TEST_CASE_FIXTURE(two_nodes, "a proxy lives as long as somebody holds it") {
    CHECK(a.hub.stats().proxies == 1);
    CHECK(world.ask<msg<Ping>>(a, remote, ping(1)));
    // The caller was known to b for the moment of the request only.
    CHECK(b.hub.stats().proxies == 0);
    CHECK(a.hub.well_known<clerk_actor>(b.id(), clerk_number).has_value());
    CHECK(*a.hub.well_known<clerk_actor>(b.id(), clerk_number) == remote);
    remote = nullptr;
    CHECK(a.hub.stats().proxies == 0);
  }

  TEST_CASE_FIXTURE(two_nodes, "an actor given away lives until it ends, then it is forgotten") {
    auto mine = a.world.system.spawn(clerk, &a.hub);
    const auto ref = *a.hub.export_actor(mine);
    mine = nullptr;
    world.run();
    const auto there = *b.hub.resolve<clerk_actor>(ref);
    CHECK(world.ask<msg<Ping>>(b, there, ping(1)));
    b.world.self->send(there, cancel(4));
    world.run();
    CHECK(a.hub.stats().exports == 0);
    CHECK(world.ask<msg<Ping>>(b, there, ping(1)).error().code == error_code::not_found);
    CHECK(a.hub.resolve<clerk_actor>(ref).error().code == error_code::not_found);
  }

  TEST_CASE_FIXTURE(two_nodes, "a well-known number has one actor and an actor one such number") {
    const auto other = b.world.system.spawn(clerk, &b.hub);
    CHECK(b.hub.publish(clerk_number, other).error().code == error_code::invalid_argument);
    CHECK(b.hub.publish(0, other).error().code == error_code::invalid_argument);
    CHECK(b.hub.publish(first_dynamic_actor, other).error().code == error_code::invalid_argument);
    CHECK(b.hub.publish(8, local).error().code == error_code::invalid_argument);
    CHECK(b.hub.publish(first_dynamic_actor - 1, other));
    CHECK(b.hub.export_actor(local)->actor == clerk_number);
    b.world.self->send(local, cancel(4));
    world.run();
    const auto successor = b.world.system.spawn(clerk, &b.hub);
    CHECK(b.hub.publish(clerk_number, successor));
    CHECK(world.ask<msg<Ping>>(a, remote, ping(1)));
  }

  TEST_CASE_FIXTURE(two_nodes, "the console finds where any handle lives") {
    CHECK(a.hub.locate(caf::actor_cast<caf::strong_actor_ptr>(remote)) ==
          actor_ref{b.id(), clerk_number, 0});
    CHECK(b.hub.locate(caf::actor_cast<caf::strong_actor_ptr>(local)) ==
          actor_ref{b.id(), clerk_number, 0});
    const auto fresh = a.world.system.spawn(clerk, &a.hub);
    CHECK(a.hub.locate(caf::actor_cast<caf::strong_actor_ptr>(fresh)).actor ==
          fresh.id() + first_dynamic_actor);
  }

  TEST_CASE("an actor that may run inline is run right after its frame, others are not") {
    for (const bool chosen : {true, false}) {
      CAPTURE(chosen);
      remote_world world;
      auto& a = world.start("a:1");
      auto& b = world.start("b:1");
      const auto local = b.world.system.spawn(clerk, &b.hub);
      world.run();
      REQUIRE(b.hub.publish(1, local));
      if (chosen) b.hub.run_inline(local);
      const auto remote = *a.hub.well_known<clerk_actor>(b.id(), 1);
      for (int i = 0; i < 10; ++i) CHECK(world.ask<msg<Ping>>(a, remote, ping(1)));
      CHECK(b.hub.stats().inline_runs == (chosen ? 10 : 0));
      b.world.self->send(local, cancel(4));  // the hub forgets it
      world.run();
    }
  }

  TEST_CASE("an interface hash knows the messages, not their order, and only those that cross") {
    using one = caf::typed_actor<caf::replies_to<msg<Ping>>::with<msg<Ping>>,
                                 caf::reacts_to<msg<wire::Cancel>>>;
    using turned = caf::typed_actor<caf::reacts_to<msg<wire::Cancel>>,
                                    caf::replies_to<msg<Ping>>::with<msg<Ping>>>;
    using with_local = caf::typed_actor<caf::reacts_to<msg<wire::Cancel>>, caf::reacts_to<int>,
                                        caf::replies_to<msg<Ping>>::with<msg<Ping>>,
                                        caf::replies_to<int, std::string>::with<int>>;
    using answers_less =
        caf::typed_actor<caf::reacts_to<msg<Ping>>, caf::reacts_to<msg<wire::Cancel>>>;
    static_assert(interface_hash<one>() == interface_hash<turned>());
    static_assert(interface_hash<one>() == interface_hash<with_local>());
    static_assert(interface_hash<one>() != interface_hash<answers_less>());
    static_assert(interface_hash<caf::actor>() == 0);
    // Part of the protocol: two releases must agree on it.
    CHECK(interface_hash<one>() == 0xd816972935cf7697u);
  }
}
