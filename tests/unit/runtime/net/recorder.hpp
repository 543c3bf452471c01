#pragma once

#include "runtime/net/loop/loop_network.hpp"

#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace deepinfer::test {

/// Writes down what a transport tells, as text, so that whole runs can be compared.
class recorder final : public net::transport_handler {
public:
  void on_peer_up(const net::peer_info& peer) override {
    lines.push_back("up " + peer.address);
    ++up[peer.id];
  }
  void on_peer_down(const node_id& peer, const failure& why) override {
    lines.push_back("down " + std::string{to_string(why.code)});
    ++down[peer];
    last_down = why;
  }
  void on_frame(const node_id& from, const net::incoming_frame& frame) override {
    lines.push_back("frame " + std::to_string(frame.header.message_id));
    received[from].push_back(frame.header.message_id);
    body.assign(frame.body.begin(), frame.body.end());
  }
  void on_dial_failed(const std::string& address, const failure& why) override {
    lines.push_back("failed " + address + " " + std::string{to_string(why.code)});
    last_dial = why;
  }
  void on_event(const std::string& name, const std::string&) override {
    lines.push_back("event " + name);
  }

  std::vector<std::string> lines;
  std::map<node_id, int> up, down;
  std::map<node_id, std::vector<uint64_t>> received;
  std::vector<std::byte> body;
  failure last_down, last_dial;
};

/// A node of a loop network with its recorder.
struct loop_peer {
  recorder heard;
  std::unique_ptr<net::transport> link;

  loop_peer(net::loop_network& network,
            uint64_t number,
            const std::string& secret = {},
            const std::string& cluster = "test") {
    link = network.make_transport(
        {{number, number}, 1, "node" + std::to_string(number), cluster, secret});
    if (!link->start(heard)) std::abort();
  }
  [[nodiscard]] node_id id() const { return link->self(); }
  [[nodiscard]] std::string address() const { return link->address(); }

  result<void> send(const loop_peer& to, uint64_t number, size_t body_bytes = 0) {
    static const std::vector<uint64_t> zeros(1 << 20);
    wire::frame_header header;
    header.message_id = number;
    return link->send(to.id(), {header, std::as_bytes(std::span{zeros}).first(body_bytes), {}});
  }
};

inline void run_all(net::loop_network& network) {
  while (network.run_one()) {
  }
}

}  // namespace deepinfer::test
