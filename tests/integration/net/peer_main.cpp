// A node for the tests that need a second process: answers every frame with its body, registers
// 16 MiB of a known pattern, and tells each new peer the region's key.
//
//   net_peer NUMBER [DIAL]
#include "proto/types/check.hpp"
#include "runtime/net/fabric/fabric_transport.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

using namespace deepinfer;

namespace {

struct echo final : net::transport_handler {
  net::transport* link = nullptr;
  uint64_t region = 0;

  void on_peer_up(const net::peer_info& peer) override {
    wire::frame_header header;
    header.message_id = 0;
    header.aux = region;
    (void)link->send(peer.id, {header, {}, {}}).has_value();
  }
  void on_peer_down(const node_id&, const failure&) override {}
  void on_frame(const node_id& from, const net::incoming_frame& frame) override {
    (void)link->send(from, {frame.header, frame.body, {}}).has_value();
  }
  void on_dial_failed(const std::string&, const failure&) override {}
  void on_event(const std::string&, const std::string&) override {}
};

}  // namespace

int main(int argc, char** argv) {
  net::restore_signal_defaults();
  net::fabric_config config;
  config.node = {0xABCD, argc > 1 ? std::stoull(argv[1]) : 99};
  config.epoch = config.node.lo;
  config.cluster = "test";
  config.secret = "open sesame";
  config.listen_port = 0;
  auto made = net::make_fabric_transport(config);
  if (!made) {
    std::fprintf(stderr, "net_peer: %s\n", made.error().detail.c_str());
    return 1;
  }
  echo handler;
  handler.link = made->get();
  std::vector<std::byte> memory(size_t{16} << 20);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 7 + (i >> 12));
  if (!(*made)->start(handler)) return 1;
  const auto region = (*made)->register_memory(memory);
  if (!region) return 1;
  handler.region = region->key;
  std::printf("%s\n", (*made)->address().c_str());
  std::fflush(stdout);
  if (argc > 2) (*made)->dial(argv[2]);
  char byte;
  while (::read(0, &byte, 1) > 0) {
  }
  (*made)->stop();
  return 0;
}
