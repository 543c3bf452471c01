#pragma once

#include "actors/messages/caf_messages.hpp"
#include "actors/messages/errors.hpp"
#include "actors/remote/remote_hub.hpp"
#include "proto/codec/registry.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <cstdint>
#include <string>
#include <vector>

/// The actor that the tests of remote handles talk to.
namespace deepinfer::test {

using wire::msg;
using wire::Ping;

using clerk_actor = caf::typed_actor<
    // Adds one. From 1000 on: fails with the number - 1000 as code. 500: answers after the next
    // Cancel. 501: never answers.
    caf::replies_to<msg<Ping>>::with<msg<Ping>>,
    // Answers whatever was sent: bodies of any size.
    caf::replies_to<msg<wire::LocalTopology>>::with<msg<wire::LocalTopology>>,
    // Sends its own report to the subscriber, ten times, then acknowledges.
    caf::replies_to<msg<wire::LoadSubscribe>>::with<void>,
    // Records the number.
    caf::reacts_to<msg<wire::LoadReport>>,
    // Answers what waits. A leg of n > 0: ends with exit reason n.
    caf::reacts_to<msg<wire::Cancel>>>;

inline msg<Ping> ping(uint64_t number) {
  wire::draft<Ping> d;
  d->setNumber(number);
  return d.freeze();
}

inline msg<wire::LoadReport> report(uint64_t number) {
  wire::draft<wire::LoadReport> d;
  d->setNumber(number);
  return d.freeze();
}

inline msg<wire::Cancel> cancel(uint32_t leg = 0) {
  wire::draft<wire::Cancel> d;
  d->initKey().setLeg(leg);
  return d.freeze();
}

/// About `bytes` long.
inline msg<wire::LocalTopology> bulky(size_t bytes) {
  wire::draft<wire::LocalTopology> d;
  d->initLog(1).set(0, std::string(bytes, 'x').c_str());
  return d.freeze();
}

inline msg<wire::LoadSubscribe> subscribe(const actor_ref& subscriber) {
  wire::draft<wire::LoadSubscribe> d;
  write_ref(d->initSubscriber(), subscriber);
  return d.freeze();
}

struct clerk_state {
  std::vector<caf::typed_response_promise<msg<Ping>>> waiting;
  std::vector<uint64_t> numbers;
};

inline clerk_actor::behavior_type clerk(clerk_actor::stateful_pointer<clerk_state> self,
                                        remote_hub* hub) {
  self->set_default_handler(caf::drop);
  return {
      [self](const msg<Ping>& m) -> caf::result<msg<Ping>> {
        const uint64_t n = m.get().getNumber();
        if (n >= 1000)
          return to_caf({error_code_from_wire(static_cast<uint16_t>(n - 1000)), "as ordered"});
        if (n == 501) return self->make_response_promise<msg<Ping>>();  // and drop it
        if (n == 500) {
          self->state.waiting.push_back(self->make_response_promise<msg<Ping>>());
          return self->state.waiting.back();
        }
        return ping(n + 1);
      },
      [](const msg<wire::LocalTopology>& m) { return m; },
      [self, hub](const msg<wire::LoadSubscribe>& m) -> caf::result<void> {
        const auto to = hub->resolve<clerk_actor>(read_ref(m.get().getSubscriber()));
        if (!to) return to_caf(to.error());
        for (uint64_t n = 1; n <= 10; ++n) self->send(*to, report(n));
        return caf::unit;
      },
      [self](const msg<wire::LoadReport>& m) {
        self->state.numbers.push_back(m.get().getNumber());
      },
      [self](const msg<wire::Cancel>& m) {
        for (auto& promise : self->state.waiting) promise.deliver(ping(777));
        self->state.waiting.clear();
        if (const uint32_t leg = m.get().getKey().getLeg(); leg > 0)
          self->quit(caf::make_error(static_cast<caf::exit_reason>(leg)));
      },
  };
}

inline clerk_state& state_of(const clerk_actor& handle) {
  return caf::actor_cast<caf::stateful_actor<clerk_state, clerk_actor::base>*>(handle)->state;
}

/// Watches or links, and writes down what it is told.
struct watcher_state {
  std::vector<failure> downs;
  std::vector<failure> exits;
  std::vector<bool> normal;
};

inline caf::behavior watcher(caf::stateful_actor<watcher_state>* self) {
  self->set_down_handler([self](caf::down_msg& m) {
    self->state.normal.push_back(!m.reason);
    self->state.downs.push_back(from_caf(m.reason));
  });
  self->set_exit_handler(
      [self](caf::exit_msg& m) { self->state.exits.push_back(from_caf(m.reason)); });
  return {
      [self](const msg<wire::Cancel>& m) {
        self->quit(caf::make_error(static_cast<caf::exit_reason>(m.get().getKey().getLeg())));
      },
  };
}

using watcher_pointer = caf::stateful_actor<watcher_state>*;

inline watcher_pointer watcher_of(const caf::actor& handle) {
  return caf::actor_cast<watcher_pointer>(handle);
}

}  // namespace deepinfer::test
