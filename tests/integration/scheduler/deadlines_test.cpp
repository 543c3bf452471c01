#include "actors/messages/errors.hpp"
#include "actors/node/deadline_clock.hpp"
#include "actors/node/service_scheduler.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <doctest/doctest.h>

#include <chrono>
#include <thread>

namespace {

using namespace std::chrono_literals;

struct quiet {};
struct quick {};
struct later {
  int number = 0;
};

}  // namespace

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(quiet)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(quick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(later)

namespace {

struct service_config : caf::actor_system_config {
  service_config() {
    deepinfer::use_service_scheduler(*this, 2);
    deepinfer::register_failure_category(*this);
  }
};

struct service {
  service_config config;
  caf::actor_system system{config};
  caf::scoped_actor self{system};

  deepinfer::deadline_clock& clock() {
    return dynamic_cast<deepinfer::deadline_clock&>(system.clock());
  }
};

/// Answers `quick`; keeps whoever sends `quiet` waiting.
caf::behavior half_deaf(caf::event_based_actor* self) {
  return {[](const quick&) { return 1; },
          [self](const quiet&) { return self->make_response_promise(); }};
}

/// Asks `callee` with `within` and tells `listener` what came: 1, or -1 for an error.
template <class Question>
caf::behavior asker(caf::event_based_actor* self,
                    const caf::actor& callee,
                    const caf::actor& listener,
                    std::chrono::milliseconds within) {
  return {[=](const later&) {
    self->request(callee, within, Question{})
        .then([=](int answer) { self->send(listener, later{answer}); },
              [=](const caf::error& why) {
                self->send(listener, later{why == caf::sec::request_timeout ? -1 : -2});
              });
  }};
}

int next_number(caf::scoped_actor& self) {
  int number = 0;
  self->receive([&number](const later& got) { number = got.number; },
                caf::after(20s) >> [&number] { number = -100; });
  return number;
}

}  // namespace

TEST_SUITE("actors/node") {
  TEST_CASE("a request without an answer fails at its deadline, in two kinds of actors") {
    service s;
    const auto callee = s.system.spawn(half_deaf);
    const auto caller =
        s.system.spawn(asker<quiet>, callee, caf::actor_cast<caf::actor>(s.self), 30ms);
    const auto begun = std::chrono::steady_clock::now();
    s.self->send(caller, later{});
    CHECK(next_number(s.self) == -1);
    CHECK(std::chrono::steady_clock::now() - begun >= 30ms);
    int blocking = 0;
    s.self->request(callee, 30ms, quiet{})
        .receive([&blocking](int) { blocking = 1; },
                 [&blocking](const caf::error& why) {
                   blocking = why == caf::sec::request_timeout ? -1 : -2;
                 });
    CHECK(blocking == -1);
    CHECK(s.clock().size() == 0);
    caf::anon_send_exit(callee, caf::exit_reason::kill);
    caf::anon_send_exit(caller, caf::exit_reason::kill);
  }

  TEST_CASE("an actor that ends takes its deadlines and messages to itself with it") {
    service s;
    const auto callee = s.system.spawn(half_deaf);
    const auto caller =
        s.system.spawn(asker<quick>, callee, caf::actor_cast<caf::actor>(s.self), 10min);
    for (int i = 0; i < 100; ++i) {
      s.self->send(caller, later{});
      CHECK(next_number(s.self) == 1);
    }
    s.self->delayed_send(caller, 10min, later{});
    s.self->monitor(caller);
    caf::anon_send_exit(caller, caf::exit_reason::kill);
    bool over = false;
    s.self->receive([&over](const caf::down_msg&) { over = true; }, caf::after(20s) >> [] {});
    CHECK(over);
    // The end is told to all who want to know, one after the other, and to us perhaps first.
    const auto patience = std::chrono::steady_clock::now() + 20s;
    while (s.clock().size() > 0 && std::chrono::steady_clock::now() < patience)
      std::this_thread::yield();
    CHECK(s.clock().size() == 0);
    caf::anon_send_exit(callee, caf::exit_reason::kill);
  }

  TEST_CASE("an earlier message overtakes a later one that was sent before it") {
    service s;
    s.self->delayed_send(s.self, 60ms, later{2});
    s.self->delayed_send(s.self, 20ms, later{1});
    s.self->delayed_send(s.self, 100ms, later{3});
    const auto begun = std::chrono::steady_clock::now();
    CHECK(next_number(s.self) == 1);
    CHECK(next_number(s.self) == 2);
    CHECK(next_number(s.self) == 3);
    CHECK(std::chrono::steady_clock::now() - begun >= 80ms);
  }

  TEST_CASE("messages of one moment keep their order") {
    service s;
    const auto due = s.clock().now() + 20ms;
    for (int i = 0; i < 50; ++i)
      s.clock().schedule_message(
          due, caf::actor_cast<caf::strong_actor_ptr>(s.self),
          caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, later{i}));
    for (int i = 0; i < 50; ++i) CHECK(next_number(s.self) == i);
  }

  TEST_CASE("a clock that has stopped takes nothing and wakes nobody") {
    service s;
    deepinfer::deadline_clock clock;
    clock.start();
    const auto later_one = [&] {
      clock.schedule_message(
          clock.now() + 10min, caf::actor_cast<caf::strong_actor_ptr>(s.self),
          caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, later{1}));
    };
    later_one();
    CHECK(clock.size() == 1);
    clock.stop();
    CHECK(clock.size() == 0);
    later_one();
    CHECK(clock.size() == 0);
  }
}
