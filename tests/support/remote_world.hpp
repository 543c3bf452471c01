#pragma once

#include "actors/remote/remote_hub.hpp"
#include "runtime/net/loop/loop_network.hpp"
#include "tests/support/actor_world.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace deepinfer::test {

/// A simulated network as a source of an `actor_world`.
class network_source : public event_source {
public:
  explicit network_source(net::loop_network& network) : network_(network) {}

  bool run_one(std::chrono::nanoseconds now) override {
    const auto next = network_.next_event_time();
    if (next && *next <= now) return network_.run_one();
    if (network_.now() < now) network_.run_until(now);
    return false;
  }
  [[nodiscard]] std::optional<std::chrono::nanoseconds> next_due() const override {
    return network_.next_event_time();
  }

private:
  net::loop_network& network_;
};

/// One process: actors, a transport, a hub, and what the hub told its subscribers.
struct remote_node {
  remote_node(net::loop_network& network, const net::loop_node& life, const remote_config& options)
      : transport(network.make_transport(life)),
        hub(world.system, *transport, options, [this] { return world.now(); }) {
    hub.subscribe({
        .peer_up = [this](const net::peer_info& p) { ups.push_back(p); },
        .peer_down = [this](const node_id& id, const failure&) { downs.push_back(id); },
        .dial_failed = [this](const std::string& a, const failure&) { undialled.push_back(a); },
        .log = [this](const std::string& name, const std::string&) { events.push_back(name); },
    });
    REQUIRE(transport->start(hub));
  }
  ~remote_node() {
    transport->stop();
    hub.stop();
    world.settle();  // what still runs may use the hub, which goes first
  }

  [[nodiscard]] node_id id() const { return transport->self(); }
  [[nodiscard]] bool logged(const std::string& name) const {
    return std::find(events.begin(), events.end(), name) != events.end();
  }

  actor_world world;
  std::unique_ptr<net::transport> transport;
  std::vector<net::peer_info> ups;
  std::vector<node_id> downs;
  std::vector<std::string> undialled;
  std::vector<std::string> events;
  remote_hub hub;
};

/// Some processes and their network in one thread and one virtual time. Actor ids of different
/// nodes collide on purpose, as they do in life.
class remote_world {
public:
  /// No delay at all, so that `run` delivers.
  static net::loop_options instant() {
    net::loop_options o;
    o.delay = o.jitter = std::chrono::nanoseconds{0};
    o.bytes_per_second = UINT64_MAX;
    return o;
  }

  explicit remote_world(uint64_t seed = 1, const net::loop_options& options = instant())
      : network(seed, options), source_(network) {
    driver_.add_source(source_);
  }

  /// A new life at `address`, linked to all nodes that live.
  remote_node& start(const std::string& address, const remote_config& options = {}) {
    ++lives_;
    const net::loop_node life{node_id{0xA0 + lives_, lives_}, lives_, address};
    nodes_.push_back(std::make_unique<remote_node>(network, life, options));
    remote_node& made = *nodes_.back();
    for (const auto& other : nodes_)
      if (other.get() != &made) made.transport->dial(other->transport->address());
    driver_.add_source(made.world);
    advance(std::chrono::milliseconds{100});
    return made;
  }

  void run() { driver_.run(); }
  /// One message, one event of the network; false when nothing is left to do now.
  bool run_one() { return driver_.run_one(driver_.now()); }
  void advance(std::chrono::nanoseconds time) { driver_.advance(time); }

  template <class Reply, class Handle, class... Parts>
  result<Reply> ask(remote_node& from, const Handle& callee, Parts... parts) {
    auto answer = from.world.start_ask<Reply>(callee, std::move(parts)...);
    run();
    return answer.get();
  }

  net::loop_network network;

private:
  network_source source_;
  actor_world driver_;  // has no actors of its own: it keeps the time of all others
  std::vector<std::unique_ptr<remote_node>> nodes_;
  uint64_t lives_ = 0;
};

}  // namespace deepinfer::test
