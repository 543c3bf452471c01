// A node for the tests that need a second process: answers every frame with its body, registers
// 16 MiB of a known pattern, and tells each new peer the region's key.
//
//   net_peer NUMBER [DIAL]
//   net_peer --bench-peer          the other side of the measurements
//   net_peer --bench               measures against itself, prints the figures
#include "proto/types/check.hpp"
#include "runtime/net/fabric/fabric_bench.hpp"
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

int measure() {
  net::fabric_bench_options options;
  options.peer_command = {"/proc/self/exe", "--bench-peer"};
  const auto figures = net::measure_fabric(options);
  if (!figures) {
    std::fprintf(stderr, "net_peer: %s\n", to_string(figures.error()).c_str());
    return 1;
  }
  for (const auto& f : *figures)
    std::printf("%-46s %10.2f %-12s ratio %.2f runs %zu spread %.2f\n", f.name.c_str(), f.value,
                f.unit.c_str(), f.ratio, f.runs, f.spread);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  net::restore_signal_defaults();
  const std::string first = argc > 1 ? argv[1] : "99";
  if (first == "--bench-peer") return net::serve_bench("tcp") ? 0 : 1;
  if (first == "--bench") return measure();
  net::fabric_config config;
  config.node = {0xABCD, std::stoull(first)};
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
  const auto region = (*made)->register_memory(memory);
  if (!region) return 1;
  handler.region = region->key;
  if (!(*made)->start(handler)) return 1;
  std::printf("%s\n", (*made)->address().c_str());
  std::fflush(stdout);
  if (argc > 2) (*made)->dial(argv[2]);
  char byte;
  while (::read(0, &byte, 1) > 0) {
  }
  (*made)->stop();
  return 0;
}
