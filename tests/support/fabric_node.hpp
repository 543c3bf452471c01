#pragma once

#include "actors/messages/errors.hpp"
#include "actors/node/service_scheduler.hpp"
#include "actors/remote/remote_hub.hpp"
#include "runtime/net/fabric/fabric_transport.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace deepinfer::test {

/// A node as a real process has it: CAF's workers, the fabric's thread, the wall's clock. For
/// integration tests and benchmarks; failures to start end the process with a message.
class fabric_node {
public:
  /// Real requests may not wait for ever either.
  static constexpr std::chrono::seconds patience{20};

  explicit fabric_node(const node_id& id, uint64_t epoch = 1, uint16_t port = 0)
      : transport_(open(id, epoch, port)), hub_(system, *transport_, {}, [] {
          return std::chrono::steady_clock::now().time_since_epoch();
        }) {
    system.await_actors_before_shutdown(false);
    hub_.subscribe({
        .peer_up = [this](const net::peer_info& p) { change([&] { up_.insert(p.id); }); },
        .peer_down = [this](const node_id& p, const failure&) { change([&] { up_.erase(p); }); },
    });
    if (const auto started = transport_->start(hub_); !started) give_up(started.error());
  }
  ~fabric_node() {
    transport_->stop();
    hub_.stop();
  }

  [[nodiscard]] remote_hub& hub() { return hub_; }
  [[nodiscard]] net::transport& transport() { return *transport_; }

  /// Dials and waits for the link; false if it did not come.
  bool meet(const std::string& address, const node_id& peer) {
    transport_->dial(address);
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, patience, [&] { return up_.contains(peer); });
  }
  /// Waits for the end of the link.
  bool lose(const node_id& peer) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, patience, [&] { return !up_.contains(peer); });
  }

  /// A request as the test's own actor sends it.
  template <class Reply, class Handle, class Message>
  result<Reply> ask(const Handle& callee,
                    const Message& message,
                    std::chrono::milliseconds timeout = patience) {
    result<Reply> answer{failure{error_code::internal, "no answer at all"}};
    self->request(callee, timeout, message)
        .receive([&](const Reply& r) { answer = r; },
                 [&](const caf::error& e) { answer = from_caf(e); });
    return answer;
  }

private:
  struct service_config : caf::actor_system_config {
    service_config() {
      net::choose_provider("tcp");  // before the first thread
      use_service_scheduler(*this, 2);
      register_failure_category(*this);
    }
  };

  static std::unique_ptr<net::transport> open(const node_id& id, uint64_t epoch, uint16_t port) {
    net::fabric_config config;
    config.node = id;
    config.epoch = epoch;
    config.listen_port = port;
    config.port_may_move = port == 0;
    auto made = net::make_fabric_transport(config);
    if (!made) give_up(made.error());
    return *std::move(made);
  }

  [[noreturn]] static void give_up(const failure& why) {
    std::fprintf(stderr, "cannot start a node: %s\n", to_string(why).c_str());
    std::exit(1);
  }

  template <class Change>
  void change(Change&& how) {
    {
      const std::lock_guard lock{mutex_};
      how();
    }
    changed_.notify_all();
  }

  service_config config_;

public:
  caf::actor_system system{config_};
  caf::scoped_actor self{system, true};

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<node_id> up_;
  std::unique_ptr<net::transport> transport_;
  remote_hub hub_;
};

}  // namespace deepinfer::test
