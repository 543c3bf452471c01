#pragma once

#include "runtime/base/config.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace deepinfer {

/// Settings of one HTTP listener. Every bound that a client can run into is here.
struct http_config {
  std::string listen = "127.0.0.1:8000";  ///< host:port; port 0 takes any free one
  uint16_t port_tries = 1;  ///< this port and the next ones; 1 for a port named by a user
  uint32_t max_connections = 4096;
  uint32_t backlog = 1024;
  uint64_t header_bytes = 16 << 10;
  uint64_t body_bytes = 32 << 20;
  uint64_t total_body_bytes = uint64_t{1} << 30;
  uint64_t pipelined_bytes = 64 << 10;
  uint64_t pending_write_bytes = 1 << 20;
  uint64_t low_water_bytes = 256 << 10;
  std::chrono::milliseconds idle_timeout{120000};
  std::chrono::milliseconds header_timeout{10000};
  std::chrono::milliseconds body_timeout{60000};
  std::chrono::milliseconds write_stall_timeout{30000};
  std::chrono::milliseconds linger_timeout{2000};
  std::chrono::milliseconds drain_timeout{5000};

  template <class V>
  void describe(V& v) {
    constexpr int64_t longest_ms = 24 * 60 * 60 * 1000;
    v.field("listen", listen, "Address to listen on, host:port.");
    v.field("port_tries", port_tries, between(1, 1000), "Ports tried in a row when one is taken.");
    v.field("max_connections", max_connections, between(1, 1000000),
            "Open connections; over: 503.");
    v.field("backlog", backlog, between(1, 65535), "Connections the kernel holds before accept.");
    v.bytes("header_bytes", header_bytes, between(256, 1 << 20),
            "Request line and headers; over: 431.");
    v.bytes("body_bytes", body_bytes, between(0, int64_t{1} << 32),
            "Body of one request; over: 413.");
    v.bytes("total_body_bytes", total_body_bytes, at_least(0),
            "Bodies of all open requests; over: 503.");
    v.bytes("pipelined_bytes", pipelined_bytes, between(1, 1 << 24),
            "Bytes read ahead of the answer a client waits for.");
    v.bytes("pending_write_bytes", pending_write_bytes, between(1024, 1 << 30),
            "Unsent bytes of one streamed answer.");
    v.bytes("low_water_bytes", low_water_bytes, between(0, 1 << 30),
            "Unsent bytes below which a full stream takes more.");
    v.field("idle_timeout", idle_timeout, between(1, longest_ms),
            "Quiet time before a connection is closed.");
    v.field("header_timeout", header_timeout, between(1, longest_ms),
            "Time for request line and headers.");
    v.field("body_timeout", body_timeout, between(1, longest_ms), "Time for the body.");
    v.field("write_stall_timeout", write_stall_timeout, between(1, longest_ms),
            "Time a client may take no byte of its answer.");
    v.field("linger_timeout", linger_timeout, between(1, longest_ms),
            "Wait for the client's end after ours.");
    v.field("drain_timeout", drain_timeout, between(0, longest_ms),
            "Time for open answers when stopping.");
  }
};

}  // namespace deepinfer
