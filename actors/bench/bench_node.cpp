#include "actors/bench/bench_node.hpp"

#include "actors/messages/errors.hpp"
#include "actors/node/service_scheduler.hpp"
#include "runtime/net/fabric/fabric_transport.hpp"
#include "runtime/net/proof.hpp"

#include <cstring>

namespace deepinfer::bench {
namespace {

constexpr std::chrono::seconds patience{20};

}  // namespace

bench_node::service_config::service_config() {
  use_service_scheduler(*this, 2);
  register_failure_category(*this);
}

result<std::unique_ptr<bench_node>> bench_node::make() {
  std::unique_ptr<bench_node> out{new bench_node};
  net::fabric_config config;
  const auto nonce = net::draw_nonce();
  if (!nonce) return nonce.error();
  std::memcpy(&config.node, nonce->data(), sizeof config.node);
  config.cluster = "bench";
  config.listen_port = 0;
  auto transport = net::make_fabric_transport(config);
  if (!transport) return transport.error();
  out->transport_ = *std::move(transport);
  out->hub_ = std::make_unique<remote_hub>(out->system_, *out->transport_, remote_config{}, [] {
    return std::chrono::steady_clock::now().time_since_epoch();
  });
  out->system_.await_actors_before_shutdown(false);
  bench_node* const self = out.get();
  hub_events events;
  events.peer_up = [self](const net::peer_info& peer) {
    const std::lock_guard lock{self->mutex_};
    self->up_.insert(peer.id);
    self->changed_.notify_all();
  };
  out->hub_->subscribe(std::move(events));
  if (const auto started = out->transport_->start(*out->hub_); !started) return started.error();
  return out;
}

bench_node::~bench_node() {
  if (transport_) transport_->stop();
  if (hub_) hub_->stop();
}

result<void> bench_node::meet(const std::string& address, const node_id& peer) {
  transport_->dial(address);
  std::unique_lock lock{mutex_};
  if (changed_.wait_for(lock, patience, [this, &peer] { return up_.contains(peer); })) return {};
  return failure{error_code::deadline_exceeded, "no link to the other process"};
}

result<node_id> bench_node::met(std::chrono::milliseconds within) {
  std::unique_lock lock{mutex_};
  if (changed_.wait_for(lock, within, [this] { return !up_.empty(); })) return *up_.begin();
  return failure{error_code::deadline_exceeded, "nobody has linked"};
}

}  // namespace deepinfer::bench
