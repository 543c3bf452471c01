#pragma once

#include "runtime/net/transport.hpp"

#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace deepinfer::test {

/// A transport whose peer is the test: it keeps what is sent, answers sends as told, and takes
/// frames that no honest peer would send.
class scripted_transport : public net::transport {
public:
  explicit scripted_transport(node_id self) : self_(self) {}

  result<void> start(net::transport_handler& handler) override {
    handler_ = &handler;
    return {};
  }
  void stop() override {}
  node_id self() const override { return self_; }
  uint64_t epoch() const override { return 1; }
  std::string address() const override { return "scripted:1"; }
  void dial(const std::string&) override {}
  void drop(const node_id& peer, const failure&) override { dropped.push_back(peer); }
  result<void> send(const node_id&, net::outgoing_frame frame) override {
    if (refuse_sends) return *refuse_sends;
    sent.push_back(std::move(frame));
    return {};
  }
  result<net::memory_region> register_memory(std::span<std::byte>) override {
    return failure{error_code::unsupported, "no memory here"};
  }
  void unregister(const net::memory_region&) override {}
  void read(const node_id&,
            const net::remote_span&,
            std::span<std::byte>,
            std::chrono::milliseconds,
            net::read_done done) override {
    done(failure{error_code::unsupported, "no memory here"});
  }
  void post(std::function<void()> task) override { tasks_.push_back(std::move(task)); }
  bool on_transport_thread() const override { return true; }
  net::transport_stats stats() const override { return {}; }

  void peer_up(const node_id& id) { handler_->on_peer_up({id, 1, "peer:1"}); }
  void peer_down(const node_id& id) {
    handler_->on_peer_down(id, {error_code::unreachable, "as scripted"});
  }
  void receive(const node_id& from,
               const wire::frame_header& header,
               std::span<const std::byte> body = {}) {
    handler_->on_frame(from, {header, body});
  }
  void run_posted() {
    while (!tasks_.empty()) {
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
  }

  std::optional<failure> refuse_sends;
  std::vector<net::outgoing_frame> sent;
  std::vector<node_id> dropped;

private:
  node_id self_;
  net::transport_handler* handler_ = nullptr;
  std::deque<std::function<void()>> tasks_;
};

}  // namespace deepinfer::test
