#pragma once

#include "runtime/http/server.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace deepinfer::http {

/// The numbers of one listener; read from any thread. Labels are bounded by construction: status
/// classes, nothing that a client chooses.
struct counters {
  using count = std::atomic<uint64_t>;

  count open_connections{0}, open_answers{0}, body_bytes{0};
  count accepted{0}, refused_connections{0}, accept_errors{0};
  count requests{0}, rejected_requests{0}, timeouts{0}, stalled_writes{0}, clients_gone{0};
  count refused_writes{0}, bytes_in{0}, bytes_out{0};
  std::array<count, 5> responses{};

  static void add(count& c, uint64_t amount = 1) { c.fetch_add(amount, std::memory_order_relaxed); }
  static void subtract(count& c, uint64_t amount = 1) {
    c.fetch_sub(amount, std::memory_order_relaxed);
  }
  void add_response(uint16_t status) { add(responses[status / 100 - 1]); }

  [[nodiscard]] http_stats snapshot() const;
};

}  // namespace deepinfer::http
