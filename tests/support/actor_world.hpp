#pragma once

#include "actors/messages/caf_messages.hpp"
#include "actors/messages/errors.hpp"
#include "tests/support/event_source.hpp"
#include "tests/support/rng.hpp"

#include <caf/actor_registry.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace deepinfer::test {

struct world_config : caf::actor_system_config {
  world_config() {
    set("scheduler.policy", caf::atom("testing"));
    register_failure_category(*this);
  }
};

/// The actors of one process in one thread, with a clock that moves only when told: nothing runs
/// outside `run`, `advance` and `ask`, and the same calls give the same run. Never spawn
/// `caf::detached` here: such an actor leaves the testing scheduler.
///
///     TEST_CASE_FIXTURE(test::actor_world, "a worker that stops reporting gets no more prompts") {
///       const auto sut = system.spawn(router, router_config{});
///       self->send(sut, report); run();
///       advance(500ms);
///       const auto late = ask<route_reply>(sut, request);
///     }
///
/// Several processes: one world per process; the others and the network are sources of the first.
class actor_world : public event_source {
public:
  using nanoseconds = std::chrono::nanoseconds;

  /// The answer to a request that may need more than one step of the test.
  template <class Reply>
  class pending_answer {
  public:
    [[nodiscard]] bool ready() const { return state_->has_value(); }
    /// The answer; `deadline_exceeded` while there is none.
    [[nodiscard]] result<Reply> get() const {
      if (!ready()) return failure{error_code::deadline_exceeded, "no answer yet: advance()"};
      return **state_;
    }

  private:
    friend class actor_world;
    std::shared_ptr<std::optional<result<Reply>>> state_ =
        std::make_shared<std::optional<result<Reply>>>();
  };

private:
  world_config config_;

public:
  caf::actor_system system{config_};
  /// Sends and receives for the test itself; see `received`.
  caf::scoped_actor self{system, true};

  actor_world() {
    system.await_actors_before_shutdown(false);
    own_actors_ = system.registry().running();
  }

  /// CAF's own stop would run periodic timers for ever: take the timers away first.
  ~actor_world() override { settle(); }

  /// Runs what can run without time passing, and forgets all timers: of actors that were told to
  /// end, none is left.
  void settle() {
    for (int round = 0; round < 100; ++round) {
      clock().cancel_all();
      if (scheduler().run(10'000) == 0) break;
    }
    clock().cancel_all();
  }

  /// Runs until no actor and no source has anything to do at the present time.
  void run() {
    size_t steps = 0;
    while (run_one(now()))
      if (++steps > max_steps) FAIL("the actors never come to rest: two of them wake each other");
  }

  /// Lets time pass: stops at every timeout on the way, in order, and runs what it wakes.
  void advance(nanoseconds duration) {
    const nanoseconds end = now() + duration;
    run();
    for (auto due = next_due(); due && *due <= end; due = next_due()) {
      set_clock(std::max(*due, now()));
      run();
    }
    set_clock(end);
    run();
  }

  [[nodiscard]] nanoseconds now() const { return clock().now().time_since_epoch(); }

  /// Actors that the test or its actors spawned and that have not ended.
  [[nodiscard]] size_t live_actors() const {
    return const_cast<caf::actor_system&>(system).registry().running() - own_actors_;
  }

  /// Asks and runs until rest. `Reply` is what the callee answers with; `void` for an
  /// acknowledgement without content. A callee that waits for time to pass has not answered:
  /// `deadline_exceeded`; use `start_ask` and `advance` then.
  template <class Reply, class Handle, class... Parts>
  result<Reply> ask(const Handle& callee, Parts... parts) {
    auto answer = start_ask<Reply>(callee, std::move(parts)...);
    run();
    return answer.get();
  }

  /// Asks; the request leaves with the next `run`. No timeout of its own.
  template <class Reply, class Handle, class... Parts>
  pending_answer<Reply> start_ask(const Handle& callee, Parts... parts) {
    return start_ask_within<Reply>(caf::infinite, callee, std::move(parts)...);
  }

  /// With the caller's timeout, as an actor's `request` has it.
  template <class Reply, class Timeout, class Handle, class... Parts>
  pending_answer<Reply> start_ask_within(Timeout timeout, const Handle& callee, Parts... parts) {
    pending_answer<Reply> answer;
    system.spawn<caf::hidden>([=, state = answer.state_](caf::event_based_actor* asker) {
      auto failed = [state](const caf::error& e) { state->emplace(from_caf(e)); };
      if constexpr (std::is_void_v<Reply>)
        asker->request(callee, timeout, parts...)
            .then([state] { state->emplace(result<void>{}); }, failed);
      else
        asker->request(callee, timeout, parts...)
            .then([state](const Reply& r) { state->emplace(r); }, failed);
    });
    return answer;
  }

  /// The next message of type `T` that was sent to `self`, if there is one.
  template <class T>
  std::optional<T> received() {
    std::optional<T> got;
    self->receive([&](const T& m) { got = m; }, caf::after(std::chrono::seconds(0)) >> [] {});
    return got;
  }

  /// From now on the seed picks which actor runs next, instead of first come, first served.
  void shuffle(uint64_t seed) { random_.emplace(seed); }

  /// `source` is driven by `run` and `advance` from now on; it must outlive the last such call.
  void add_source(event_source& source) { sources_.push_back(&source); }
  void remove_source(event_source& source) { std::erase(sources_, &source); }

  // event_source: this world as a part of another one.
  bool run_one(nanoseconds at) override {
    if (at > now()) set_clock(at);
    if (run_job()) return true;
    return std::any_of(sources_.begin(), sources_.end(),
                       [at](event_source* s) { return s->run_one(at); });
  }

  [[nodiscard]] std::optional<nanoseconds> next_due() const override {
    std::optional<nanoseconds> first;
    const auto consider = [&first](std::optional<nanoseconds> due) {
      if (due && (!first || *due < *first)) first = due;
    };
    if (const auto& timers = clock().schedule(); !timers.empty())
      consider(timers.begin()->first.time_since_epoch());
    for (const event_source* s : sources_) consider(s->next_due());
    return first;
  }

  [[nodiscard]] caf::scheduler::test_coordinator& scheduler() const {
    return static_cast<caf::scheduler::test_coordinator&>(
        const_cast<caf::actor_system&>(system).scheduler());
  }

private:
  static constexpr size_t max_steps = 5'000'000;

  [[nodiscard]] caf::detail::test_actor_clock& clock() const { return scheduler().clock(); }

  void set_clock(nanoseconds at) { clock().advance_time(at - now()); }

  bool run_job() {
    auto& jobs = scheduler().jobs;
    if (random_ && jobs.size() > 1)
      std::rotate(jobs.begin(), jobs.begin() + random_->below(static_cast<uint32_t>(jobs.size())),
                  jobs.end());
    return scheduler().try_run_once();
  }

  std::vector<event_source*> sources_;
  std::optional<rng> random_;
  size_t own_actors_ = 0;
};

}  // namespace deepinfer::test
