#include "actors/messages/errors.hpp"

#include "actors/messages/caf_messages.hpp"
#include "proto/codec/registry.hpp"
#include "tests/support/actor_world.hpp"

#include <caf/exit_reason.hpp>
#include <caf/sec.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <doctest/doctest.h>

using namespace deepinfer;
using namespace std::chrono_literals;

namespace {

using wire::msg;
using wire::Ping;

using clerk_actor = caf::typed_actor<
    // Adds one; fails with the number as error code from 100 on; never answers 50; answers 7 late.
    caf::replies_to<msg<Ping>>::with<msg<Ping>>,
    // Counts.
    caf::reacts_to<msg<wire::Cancel>>>;

msg<Ping> ping(uint64_t number) {
  wire::draft<Ping> d;
  d->setNumber(number);
  return d.freeze();
}

struct clerk_state {
  std::vector<caf::typed_response_promise<msg<Ping>>> open;
  uint64_t ticks = 0;
};

clerk_actor::behavior_type clerk(clerk_actor::stateful_pointer<clerk_state> self) {
  self->set_default_handler(caf::drop);
  return {
      [self](const msg<Ping>& m) -> caf::result<msg<Ping>> {
        const uint64_t n = m.get().getNumber();
        if (n >= 100) return to_caf({error_code_from_wire(uint16_t(n - 100)), "as ordered"});
        if (n == 50) {
          self->state.open.push_back(self->make_response_promise<msg<Ping>>());
          return self->state.open.back();
        }
        return ping(n + 1);
      },
      // A tick that never stops: the world must end all the same.
      [self](const msg<wire::Cancel>& m) {
        ++self->state.ticks;
        self->delayed_send(self, 500ms, m);
      },
  };
}

}  // namespace

TEST_SUITE("actors/messages") {
  TEST_CASE("every code crosses into CAF and back with its detail") {
    for (uint16_t n = 1; n <= 12; ++n) {
      const failure sent{error_code_from_wire(n), "detail of " + std::to_string(n)};
      const failure back = from_caf(to_caf(sent));
      CHECK(back.code == sent.code);
      CHECK(back.detail == sent.detail);
    }
    CHECK(from_caf(to_caf({error_code::ok, "no failure"})).code == error_code::internal);
  }

  TEST_CASE("CAF's own errors map by what the caller can do about them") {
    CHECK(from_caf(caf::make_error(caf::sec::request_timeout)).code ==
          error_code::deadline_exceeded);
    CHECK(from_caf(caf::make_error(caf::sec::request_receiver_down)).code ==
          error_code::unreachable);
    CHECK(from_caf(caf::make_error(caf::exit_reason::remote_link_unreachable)).code ==
          error_code::unreachable);
    CHECK(from_caf(caf::make_error(caf::sec::unexpected_message)).code == error_code::unsupported);
    CHECK(from_caf(caf::make_error(caf::exit_reason::user_shutdown)).code == error_code::cancelled);
    CHECK(from_caf(caf::error{}).code == error_code::cancelled);
    CHECK(from_caf(caf::make_error(caf::sec::runtime_error)).code == error_code::internal);
    CHECK(from_caf(caf::error{3, caf::atom("other")}).code == error_code::internal);
  }

  TEST_CASE_FIXTURE(test::actor_world, "the system renders our errors as code and detail") {
    CHECK(system.render(to_caf({error_code::no_capacity, "queue full"})) ==
          "no_capacity: queue full");
  }
}

TEST_SUITE("tests/support/actor_world") {
  TEST_CASE_FIXTURE(test::actor_world, "ask answers with the value or the failure") {
    const auto sut = system.spawn(clerk);
    const auto good = ask<msg<Ping>>(sut, ping(1));
    REQUIRE(good);
    CHECK(good->get().getNumber() == 2);
    const auto bad = ask<msg<Ping>>(sut, ping(104));
    REQUIRE_FALSE(bad);
    CHECK(bad.error().code == error_code::no_capacity);
    CHECK(bad.error().detail == "as ordered");
  }

  TEST_CASE_FIXTURE(test::actor_world, "a callee that keeps silent gives a deadline, not a hang") {
    const auto sut = system.spawn(clerk);
    const auto none = ask<msg<Ping>>(sut, ping(50));
    REQUIRE_FALSE(none);
    CHECK(none.error().code == error_code::deadline_exceeded);
    const auto timed = start_ask_within<msg<Ping>>(200ms, sut, ping(50));
    advance(199ms);
    CHECK_FALSE(timed.ready());
    advance(1ms);
    REQUIRE(timed.ready());
    CHECK(timed.get().error().code == error_code::deadline_exceeded);
    // The clerk keeps open promises, which keep the clerk: only its end lets go of both.
    self->send_exit(sut, caf::exit_reason::user_shutdown);
    run();
  }

  TEST_CASE_FIXTURE(test::actor_world, "advance stops at every timeout on its way") {
    const auto sut = system.spawn(clerk);
    self->send(sut, wire::draft<wire::Cancel>{}.freeze());
    const auto begin = now();
    advance(10s);
    CHECK(now() - begin == 10s);
    auto* state = caf::actor_cast<caf::stateful_actor<clerk_state, clerk_actor::base>*>(sut);
    CHECK(state->state.ticks == 21);  // at 0, 0.5, ... 10 s
  }

  TEST_CASE_FIXTURE(test::actor_world, "self receives what actors send to the test") {
    self->send(self, ping(5));
    CHECK(received<msg<Ping>>()->get().getNumber() == 5);
    CHECK_FALSE(received<msg<Ping>>());
  }

  TEST_CASE("a second world keeps the first one's time") {
    test::actor_world first;
    test::actor_world second;
    first.add_source(second);
    const auto sut = second.system.spawn(clerk);
    second.self->send(sut, wire::draft<wire::Cancel>{}.freeze());
    first.advance(2s);
    CHECK(second.now() == first.now());
    auto* state = caf::actor_cast<caf::stateful_actor<clerk_state, clerk_actor::base>*>(sut);
    CHECK(state->state.ticks == 5);
  }
}
