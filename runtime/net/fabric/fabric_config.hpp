#pragma once

#include "proto/types/ids.hpp"
#include "proto/types/limits.hpp"
#include "runtime/base/config.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace deepinfer::net {

/// Settings of the libfabric transport. `node`, `epoch`, `cluster` and `secret` are given by
/// `main`; the rest is section `[fabric]` of the config file.
struct fabric_config {
  node_id node;
  uint64_t epoch = 1;
  std::string cluster = "default";
  std::string secret;

  std::string provider = "tcp";
  std::string listen_host = "127.0.0.1";
  uint16_t listen_port = 7400;  ///< 0: any
  bool port_may_move = true;    ///< to the next free one; false for a port the user named
  std::string advertise_host;   ///< empty: the listen host, or of `0.0.0.0` the first address found

  std::chrono::milliseconds heartbeat_interval{500};
  std::chrono::milliseconds dead_after{2500};
  std::chrono::milliseconds dial_timeout{2000};
  std::chrono::milliseconds rendezvous_timeout{30000};
  std::chrono::milliseconds read_grace{250};

  uint32_t max_links = limits::max_nodes;
  uint32_t max_handshakes = 256;
  uint32_t max_resolving = 8;
  uint32_t max_regions = 1024;
  uint32_t receive_buffers = 8;
  uint64_t send_queue_bytes = uint64_t{64} << 20;
  uint32_t send_queue_frames = 65536;
  uint64_t window_bytes = uint64_t{4} << 20;
  uint32_t reads_in_flight = 8;
  uint32_t max_queued_reads = 4096;
  uint64_t rendezvous_bytes = uint64_t{512} << 20;

  template <class Visitor>
  void describe(Visitor& v) {
    v.field("provider", provider, "libfabric provider with FI_EP_MSG: tcp or verbs.");
    v.field("listen_host", listen_host,
            "Address to listen on; beyond loopback a secret is needed.");
    v.field("listen_port", listen_port, between(0, 65535), "Port to listen on; 0 takes any.");
    v.field("port_may_move", port_may_move, "A taken port gives way to the next free one.");
    v.field("advertise_host", advertise_host, "Host name or address that others dial.");
    v.field("heartbeat_interval", heartbeat_interval, between(10, 60000),
            "A link without traffic for this long carries a heartbeat.");
    v.field("dead_after", dead_after, between(50, 600000),
            "A peer silent for this long is dead; at least four heartbeats.");
    v.field("dial_timeout", dial_timeout, between(50, 600000), "Time for a dial to become a link.");
    v.field("rendezvous_timeout", rendezvous_timeout, between(100, 3600000),
            "Time to fetch a long frame before the link is given up.");
    v.field("read_grace", read_grace, between(1, 60000),
            "Time for parts under way after a read's deadline before its lane is reset.");
    v.field("max_links", max_links, between(1, 8192), "Peers linked at a time.");
    v.field("max_handshakes", max_handshakes, between(1, 8192), "Links not yet proven at a time.");
    v.field("max_resolving", max_resolving, between(1, 256), "Host names looked up at a time.");
    v.field("max_regions", max_regions, between(1, 1 << 20),
            "Memory regions registered at a time.");
    v.field("receive_buffers", receive_buffers, between(2, 256),
            "Receive buffers of 64 KiB per link.");
    v.bytes("send_queue_bytes", send_queue_bytes, at_least(1 << 10),
            "Bytes queued or under way per peer before a send is refused.");
    v.field("send_queue_frames", send_queue_frames, at_least(1),
            "Frames queued or under way per peer before a send is refused.");
    v.bytes("window_bytes", window_bytes, at_least(1 << 10),
            "Bytes handed to the provider per peer and not yet sent.");
    v.field("reads_in_flight", reads_in_flight, between(1, 128),
            "One-sided reads (of up to 1 MiB) under way per peer.");
    v.field("max_queued_reads", max_queued_reads, at_least(1),
            "Reads waiting or under way per peer before one is refused.");
    v.bytes("rendezvous_bytes", rendezvous_bytes, at_least(1 << 20),
            "Memory for long frames being fetched; more wait.");
  }
};

}  // namespace deepinfer::net
