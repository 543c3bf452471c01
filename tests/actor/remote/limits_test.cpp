#include "tests/actor/remote/clerk.hpp"
#include "tests/support/remote_world.hpp"
#include "tests/support/scripted_transport.hpp"

#include <doctest/doctest.h>

#include <cstring>

using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

namespace {

constexpr node_id here{1, 1};
constexpr node_id there{2, 2};
const failure full{error_code::no_capacity, "the send queue is full"};

/// A node whose only peer is the test.
struct scripted_node {
  explicit scripted_node(const remote_config& options = {})
      : hub(world.system, transport, options, [this] { return world.now(); }) {
    hub.subscribe(
        {.log = [this](const std::string& name, const std::string&) { events.push_back(name); }});
    REQUIRE(transport.start(hub));
    transport.peer_up(there);
    remote = *hub.well_known<clerk_actor>(there, 7);
  }
  ~scripted_node() { hub.stop(); }

  actor_world::pending_answer<msg<Ping>> start_ask(uint64_t number) {
    auto answer = world.start_ask<msg<Ping>>(remote, ping(number));
    world.run();
    return answer;
  }
  /// Answers the request in `frame` with a failure.
  void refuse(const net::outgoing_frame& frame) {
    wire::frame_header h;
    h.kind = wire::frame_kind::error;
    h.flags = wire::frame_header::response_flag;
    h.destination = frame.header.source;
    h.message_id = frame.header.message_id;
    h.aux = static_cast<uint64_t>(error_code::cancelled);
    transport.receive(there, h);
    world.run();
  }

  actor_world world;
  scripted_transport transport{here};
  std::vector<std::string> events;
  remote_hub hub;
  clerk_actor remote;
};

wire::frame_header request_to(uint64_t destination, uint64_t source, uint64_t id) {
  wire::frame_header h;
  h.kind = wire::frame_kind::message;
  h.flags = wire::frame_header::request_flag;
  h.destination = destination;
  h.source = source;
  h.message_id = id;
  h.type_id = wire::type_id<Ping>();
  return h;
}

}  // namespace

TEST_SUITE("actors/remote") {
  TEST_CASE("one open request over the limit is answered no_capacity, and there is room again") {
    scripted_node node{{.max_pending_requests = 2}};
    const auto first = node.start_ask(1);
    const auto second = node.start_ask(1);
    const auto third = node.start_ask(1);
    CHECK_FALSE(first.ready());
    CHECK_FALSE(second.ready());
    REQUIRE(third.ready());
    CHECK(third.get().error().code == error_code::no_capacity);
    CHECK(node.transport.sent.size() == 2);
    node.refuse(node.transport.sent[0]);
    CHECK(first.get().error().code == error_code::cancelled);
    CHECK_FALSE(node.start_ask(1).ready());
  }

  TEST_CASE("one export over the limit is refused, and there is room when an actor ends") {
    scripted_node node{{.max_exports = 1}};
    auto mine = node.world.system.spawn(clerk, &node.hub);
    const auto other = node.world.system.spawn(clerk, &node.hub);
    CHECK(node.hub.export_actor(mine));
    CHECK(node.hub.export_actor(mine));  // the same one again costs nothing
    const auto over = node.hub.export_actor(other);
    REQUIRE_FALSE(over);
    CHECK(over.error().code == error_code::no_capacity);
    node.world.self->send(mine, cancel(4));
    node.world.run();
    CHECK(node.hub.export_actor(other));
  }

  TEST_CASE("one link over the limit ends the linking actor instead of promising too much") {
    scripted_node node{{.max_links = 1}};
    const auto mine = node.world.system.spawn(clerk, &node.hub);
    wire::frame_header h;
    h.kind = wire::frame_kind::monitor;
    h.aux = 1;
    h.destination = node.hub.export_actor(mine)->actor;
    h.source = 5000;
    node.transport.receive(there, h);
    CHECK(node.transport.sent.empty());
    h.source = 5001;
    node.transport.receive(there, h);
    REQUIRE(node.transport.sent.size() == 1);
    CHECK(node.transport.sent[0].header.kind == wire::frame_kind::exit);
    CHECK(node.transport.sent[0].header.destination == 5001);
    CHECK(node.transport.sent[0].header.aux == static_cast<uint64_t>(error_code::no_capacity));
  }

  TEST_CASE("a full send queue: requests are refused, plain messages dropped with an event") {
    scripted_node node;
    node.transport.refuse_sends = full;
    const auto answer = node.start_ask(1);
    REQUIRE(answer.ready());
    CHECK(answer.get().error().code == error_code::no_capacity);
    CHECK(node.hub.stats().pending == 0);
    node.world.self->send(node.remote, report(1));
    CHECK(node.hub.stats().dropped == 1);
    CHECK(node.events == std::vector<std::string>{"remote.message.dropped"});
  }

  TEST_CASE("a message over the transport's limit is refused as too large") {
    scripted_node node;
    node.transport.refuse_sends = failure{error_code::too_large, "too long"};
    CHECK(node.start_ask(1).get().error().code == error_code::too_large);
  }

  TEST_CASE("an answer that finds the queue full becomes a refusal that waits for room") {
    scripted_node node;
    const auto mine = node.world.system.spawn(clerk, &node.hub);
    const auto number = node.hub.export_actor(mine)->actor;
    node.transport.refuse_sends = full;
    const auto question = ping(1);
    node.transport.receive(there, request_to(number, 5000, 3), question.bytes());
    node.world.run();
    CHECK(node.transport.sent.empty());
    node.transport.refuse_sends.reset();
    node.hub.sweep();
    REQUIRE(node.transport.sent.size() == 1);
    const auto& refusal = node.transport.sent[0].header;
    CHECK(refusal.kind == wire::frame_kind::error);
    CHECK(refusal.destination == 5000);
    CHECK(refusal.message_id % (1u << 20) == 3);
    CHECK(refusal.aux == static_cast<uint64_t>(error_code::no_capacity));
  }

  TEST_CASE("a monitor that finds the queue full is sent when there is room") {
    scripted_node node;
    const auto observer = node.world.system.spawn(watcher);
    node.transport.refuse_sends = full;
    watcher_of(observer)->monitor(node.remote);
    node.transport.run_posted();
    CHECK(node.transport.sent.empty());
    node.transport.refuse_sends.reset();
    node.transport.receive(there, {.kind = wire::frame_kind::unmonitor});  // any frame will do
    REQUIRE(node.transport.sent.size() == 1);
    CHECK(node.transport.sent[0].header.kind == wire::frame_kind::monitor);
  }

  TEST_CASE("control frames keep their order while they wait") {
    scripted_node node;
    const auto observer = node.world.system.spawn(watcher);
    node.transport.refuse_sends = full;
    watcher_of(observer)->monitor(node.remote);
    node.transport.run_posted();
    node.transport.refuse_sends.reset();
    watcher_of(observer)->demonitor(node.remote.address());
    node.transport.run_posted();
    node.hub.sweep();
    REQUIRE(node.transport.sent.size() == 2);
    CHECK(node.transport.sent[0].header.kind == wire::frame_kind::monitor);
    CHECK(node.transport.sent[1].header.kind == wire::frame_kind::unmonitor);
  }

  TEST_CASE("a peer that asks to monitor an actor twice is told once") {
    scripted_node node;
    const auto mine = node.world.system.spawn(clerk, &node.hub);
    wire::frame_header h;
    h.kind = wire::frame_kind::monitor;
    h.destination = node.hub.export_actor(mine)->actor;
    node.transport.receive(there, h);
    node.transport.receive(there, h);
    node.world.self->send(mine, cancel(4));
    node.world.run();
    REQUIRE(node.transport.sent.size() == 1);
    CHECK(node.transport.sent[0].header.kind == wire::frame_kind::down);
    CHECK(node.transport.sent[0].header.source == h.destination);
  }

  TEST_CASE("a peer that takes no control frames is dropped at the limit") {
    scripted_node node{{.max_waiting_control = 3}};
    node.transport.refuse_sends = full;
    for (uint64_t i = 0; i < 3; ++i) node.transport.receive(there, request_to(99, 5000, i + 1));
    CHECK(node.transport.dropped.empty());
    node.transport.receive(there, request_to(99, 5000, 9));
    CHECK(node.transport.dropped == std::vector<node_id>{there});
  }

  TEST_CASE("a request that nobody ever answers ends with the longest allowed time") {
    scripted_node node{{.longest_request = 60s}};
    const auto answer = node.start_ask(1);
    node.world.advance(60s);
    node.hub.sweep();
    CHECK_FALSE(answer.ready());
    node.world.advance(1ns);
    node.hub.sweep();
    node.world.run();
    REQUIRE(answer.ready());
    CHECK(answer.get().error().code == error_code::deadline_exceeded);
    CHECK(node.hub.stats().pending == 0);
    node.refuse(node.transport.sent[0]);  // too late
    CHECK(node.hub.stats().stale_answers == 1);
  }

  TEST_CASE("a request whose caller has ended is forgotten by the next sweep") {
    scripted_node node;
    auto asker = node.world.system.spawn(
        [remote = node.remote](caf::event_based_actor* self) -> caf::behavior {
          self->request(remote, caf::infinite, ping(1)).then([](const msg<Ping>&) {});
          return {[self](const msg<wire::Cancel>&) { self->quit(); }};
        });
    node.world.run();
    CHECK(node.hub.stats().pending == 1);
    node.world.self->send(asker, cancel());
    node.world.run();
    node.hub.sweep();
    CHECK(node.hub.stats().pending == 0);
    CHECK(node.hub.stats().known_senders == 0);
  }

  TEST_CASE("inline runs stay within their budget per frame") {
    for (const uint32_t jobs : {1u, 2u}) {
      CAPTURE(jobs);
      scripted_node node{{.inline_jobs = jobs}};
      const auto second = node.world.system.spawn(clerk, &node.hub);
      const auto first =
          node.world.system.spawn([second](caf::event_based_actor* self) -> caf::behavior {
            return {[self, second](const msg<wire::LoadReport>& m) { self->send(second, m); }};
          });
      node.world.run();
      node.hub.run_inline(first);
      node.hub.run_inline(second);
      wire::frame_header h;
      h.destination = node.hub.export_actor(first)->actor;
      h.type_id = wire::type_id<wire::LoadReport>();
      const auto m = report(1);
      node.transport.receive(there, h, m.bytes());
      CHECK(node.hub.stats().inline_runs == jobs);
      CHECK(state_of(second).numbers.size() == jobs - 1);  // inline, or left to the scheduler
      node.world.run();
      CHECK(state_of(second).numbers.size() == 1);
    }
  }

  TEST_CASE("frames of a hostile peer change nothing for others and end with the link") {
    scripted_node node;
    constexpr node_id honest{3, 3};
    node.transport.peer_up(honest);
    const auto mine = node.world.system.spawn(clerk, &node.hub);
    const auto number = node.hub.export_actor(mine)->actor;
    const auto observer = node.world.system.spawn(watcher);
    watcher_of(observer)->monitor(*node.hub.well_known<clerk_actor>(honest, 7));
    const auto open =
        node.world.start_ask<msg<Ping>>(*node.hub.well_known<clerk_actor>(honest, 7), ping(1));
    node.world.run();
    node.transport.run_posted();
    test::rng random{11};
    const auto any = [&](std::initializer_list<uint64_t> values) {
      return *(values.begin() + random.below(static_cast<uint32_t>(values.size())));
    };
    const auto question = ping(3);
    for (int i = 0; i < 50'000; ++i) {
      wire::frame_header h;
      h.kind = static_cast<wire::frame_kind>(random.below(16));
      h.flags = static_cast<uint8_t>(random.next());
      h.destination = any({0, 1, 7, number, observer.id() + 1024, random.next(), ~uint64_t{0}});
      h.source = any({0, 1, 7, number, random.next(), uint64_t{1} << 63});
      h.message_id = any({0, 1, 2, random.next(), ~uint64_t{0}, uint64_t{3} << 60 | 1});
      h.type_id = any({0, 1, 8, wire::type_id<Ping>(), wire::type_id<wire::LoadReport>()});
      h.aux = any({0, 1, 12, 13, random.next()});
      // The actor under attack may be told to end; that is what exit frames are for.
      if (h.kind == wire::frame_kind::exit && h.destination != 0) h.destination = random.next();
      node.transport.receive(
          there, h, random.below(2) == 0 ? question.bytes() : std::span<const std::byte>{});
      if (i % 100 == 0) {
        node.world.run();
        node.transport.run_posted();
      }
    }
    node.world.run();
    CHECK_FALSE(open.ready());
    CHECK(watcher_of(observer)->state.downs.empty());
    CHECK(node.world.ask<msg<Ping>>(mine, ping(1)));
    node.transport.peer_down(there);
    node.world.run();
    CHECK(node.hub.stats().proxies == 1);  // the honest peer's
    CHECK(node.hub.stats().pending == 1);
  }
}
