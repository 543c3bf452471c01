#pragma once

#include "runtime/base/config.hpp"

#include <chrono>
#include <cstdint>

namespace deepinfer {

/// Bounds of the handles to actors of other processes; section `[remote]`.
struct remote_config {
  uint32_t max_pending_requests = 65'536;
  uint32_t max_relays = 16'384;
  uint32_t max_links = 65'536;
  uint32_t max_exports = 262'144;
  /// Small frames (monitors, deaths, refusals) must not be lost while a link lives, so the link is
  /// dropped when one more would have to wait.
  uint32_t max_waiting_control = 16'384;
  uint32_t inline_jobs = 1;
  uint32_t inline_messages = 4;
  /// The caller's own timeout is shorter; this only bounds the table.
  std::chrono::milliseconds longest_request{15 * 60'000};
  std::chrono::milliseconds sweep_every{1000};

  template <class Visitor>
  void describe(Visitor& v) {
    v.field("max_pending_requests", max_pending_requests, between(1, 1 << 24),
            "Requests per peer that wait for an answer; more are answered no_capacity.");
    v.field("max_relays", max_relays, between(1, 1 << 24),
            "Of those, requests passed on for a third node.");
    v.field("max_links", max_links, between(1, 1 << 24),
            "Per peer: actors of this node linked to actors of the peer.");
    v.field("max_exports", max_exports, between(1, 1 << 24),
            "Living actors whose handle was given to other nodes.");
    v.field("max_waiting_control", max_waiting_control, between(1, 1 << 24),
            "Small frames per peer that wait for room in its send queue.");
    v.field("inline_jobs", inline_jobs, between(0, 64),
            "Actors run on the transport's thread per incoming frame.");
    v.field("inline_messages", inline_messages, between(1, 1024),
            "Messages each of them may handle there.");
    v.field("longest_request", longest_request, between(1, 24 * 3'600'000),
            "A request without an answer for this long is answered deadline_exceeded.");
    v.field("sweep_every", sweep_every, between(1, 3'600'000),
            "Time between two looks for requests that nobody will answer.");
  }
};

}  // namespace deepinfer
