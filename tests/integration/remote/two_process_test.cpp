#include "tests/actor/remote/clerk.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/fabric_node.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>

using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

namespace {

constexpr node_id peer_id{77, 1};

/// A node in this process and one in another, linked.
struct two_processes {
  fabric_node node{node_id{11, 1}};
  child_process other = start(peer_id, 1, 0);
  std::string address = other.line();
  clerk_actor remote = meet();

  static child_process start(const node_id& id, uint64_t epoch, uint16_t port) {
    return child_process{{DEEPINFER_REMOTE_PEER, std::to_string(id.hi), std::to_string(id.lo),
                          std::to_string(epoch), std::to_string(port)}};
  }
  clerk_actor meet() {
    REQUIRE_FALSE(address.empty());
    REQUIRE(node.meet(address, peer_id));
    return *node.hub().well_known<clerk_actor>(peer_id, 7);
  }
  /// What `self` is told of an end, or an empty failure after a while.
  failure next_down() {
    failure why{error_code::ok, ""};
    node.self->receive([&](const caf::down_msg& m) { why = from_caf(m.reason); },
                       caf::after(fabric_node::patience) >> [] {});
    return why;
  }
};

}  // namespace

TEST_SUITE("actors/remote") {
  TEST_CASE_FIXTURE(two_processes, "answers, failures, timeouts and unknown messages") {
    const auto answer = node.ask<msg<Ping>>(remote, ping(1));
    REQUIRE(answer);
    CHECK(answer->get().getNumber() == 2);
    const auto failed = node.ask<msg<Ping>>(remote, ping(1004));
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code == error_code::no_capacity);
    CHECK(failed.error().detail == "as ordered");
    CHECK(node.ask<msg<Ping>>(remote, ping(501), 100ms).error().code ==
          error_code::deadline_exceeded);
    const auto untyped = caf::actor_cast<caf::actor>(remote);
    CHECK(node.ask<msg<Ping>>(untyped, wire::draft<wire::MembersQuery>{}.freeze()).error().code ==
          error_code::unsupported);
    const auto nobody = *node.hub().well_known<clerk_actor>(peer_id, 99);
    CHECK(node.ask<msg<Ping>>(nobody, ping(1)).error().code == error_code::not_found);
  }

  TEST_CASE_FIXTURE(two_processes, "bodies from one byte to 16 MiB arrive whole") {
    for (const size_t bytes : {size_t{1}, size_t{100} << 10, size_t{1} << 20, size_t{16} << 20}) {
      CAPTURE(bytes);
      const auto answer = node.ask<msg<wire::LocalTopology>>(remote, bulky(bytes));
      REQUIRE(answer);
      CHECK(answer->get().getLog()[0].size() == bytes);
    }
  }

  TEST_CASE_FIXTURE(two_processes, "20,000 messages over a handle that came in a message") {
    const auto mine = node.system.spawn(clerk, &node.hub());
    const auto ref = *node.hub().export_actor(mine);
    for (int round = 0; round < 2'000; ++round) node.self->send(remote, subscribe(ref));
    // The last subscription is answered after everything that was sent before it.
    bool done = false;
    node.self->request(remote, fabric_node::patience, subscribe(ref))
        .receive([&] { done = true; }, [](const caf::error&) {});
    REQUIRE(done);
    // An own request to the counting clerk is queued behind the reports, then its state is at rest.
    REQUIRE(node.ask<msg<Ping>>(mine, ping(1)));
    const auto& got = state_of(mine).numbers;
    REQUIRE(got.size() == 20'010);
    bool in_order = true;
    for (size_t i = 0; i < got.size(); ++i) in_order = in_order && got[i] == i % 10 + 1;
    CHECK(in_order);
  }

  TEST_CASE_FIXTURE(two_processes, "a monitor is told when the remote actor quits") {
    node.self->monitor(remote);
    REQUIRE(node.ask<msg<Ping>>(remote, ping(1)));
    other.say("quit");
    CHECK(next_down().code == error_code::cancelled);
    CHECK(node.ask<msg<Ping>>(remote, ping(1)).error().code == error_code::unreachable);
  }

  TEST_CASE_FIXTURE(two_processes, "kill -9: request, monitor and link end at once") {
    std::atomic<int> exits{0};
    std::atomic<int> code{0};
    auto linked = node.system.spawn([&](caf::event_based_actor* self) -> caf::behavior {
      self->link_to(remote);
      self->set_exit_handler([&, self](caf::exit_msg& m) {
        code = static_cast<int>(from_caf(m.reason).code);
        ++exits;
        self->quit();
      });
      return {[](const msg<Ping>& m) { return m; }};
    });
    node.self->monitor(remote);
    node.self->monitor(linked);
    REQUIRE(node.ask<msg<Ping>>(linked, ping(1)));
    REQUIRE(node.ask<msg<Ping>>(remote, ping(1)));
    auto open = node.self->request(remote, fabric_node::patience, ping(501));
    REQUIRE(node.ask<msg<Ping>>(remote, ping(1)));  // so that the request has arrived
    const auto before = std::chrono::steady_clock::now();
    other.end(SIGKILL);
    failure why;
    std::move(open).receive([](const msg<Ping>&) {},
                            [&](const caf::error& e) { why = from_caf(e); });
    CHECK(why.code == error_code::unreachable);
    CHECK(std::chrono::steady_clock::now() - before < 5s);
    const failure first = next_down();
    const failure second = next_down();
    // the remote clerk is unreachable; the linked actor ended normally because of it
    CHECK((first.code == error_code::unreachable || second.code == error_code::unreachable));
    CHECK(exits == 1);
    CHECK(code == static_cast<int>(error_code::unreachable));
    CHECK(node.ask<msg<Ping>>(remote, ping(1)).error().code == error_code::unreachable);
  }

  TEST_CASE_FIXTURE(two_processes, "a new life on the same address is not the old one") {
    node.self->monitor(remote);
    const actor_ref old_ref = *node.hub().export_actor(remote);
    const auto port = static_cast<uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)));
    other.end(SIGKILL);
    REQUIRE(node.lose(peer_id));
    constexpr node_id second_life{77, 2};
    child_process again = start(second_life, 2, port);
    REQUIRE(again.line() == address);
    REQUIRE(node.meet(address, second_life));
    CHECK(node.hub().resolve<clerk_actor>(old_ref).error().code == error_code::stale_epoch);
    CHECK(node.ask<msg<Ping>>(remote, ping(1)).error().code == error_code::unreachable);
    const auto fresh = *node.hub().well_known<clerk_actor>(second_life, 7);
    CHECK(node.ask<msg<Ping>>(fresh, ping(1)));
    CHECK(again.finish() == 0);
  }

  TEST_CASE_FIXTURE(two_processes, "a goodbye ends the handles, too") {
    node.self->monitor(remote);
    REQUIRE(node.ask<msg<Ping>>(remote, ping(1)));
    CHECK(other.finish() == 0);
    CHECK(next_down().code == error_code::unreachable);
  }
}
