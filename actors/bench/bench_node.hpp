#pragma once

#include "actors/remote/remote_hub.hpp"
#include "proto/types/result.hpp"
#include "runtime/net/transport.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace deepinfer::bench {

/// What a node has below its actors, as in service: workers that sleep, libfabric, the hub.
class bench_node {
public:
  static result<std::unique_ptr<bench_node>> make();
  ~bench_node();

  [[nodiscard]] caf::actor_system& system() { return system_; }
  [[nodiscard]] remote_hub& hub() { return *hub_; }
  [[nodiscard]] net::transport& transport() { return *transport_; }

  /// Dials and waits for the link.
  result<void> meet(const std::string& address, const node_id& peer);
  /// Waits until somebody has linked; the node that did.
  result<node_id> met(std::chrono::milliseconds patience);

private:
  struct service_config : caf::actor_system_config {
    service_config();
  };

  bench_node() = default;

  service_config config_;
  caf::actor_system system_{config_};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<node_id> up_;
  std::unique_ptr<net::transport> transport_;
  std::unique_ptr<remote_hub> hub_;
};

}  // namespace deepinfer::bench
