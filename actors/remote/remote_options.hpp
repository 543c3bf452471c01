#pragma once

#include <array>
#include <chrono>
#include <cstdint>

namespace deepinfer {

/// Bounds of the remote layer, per node process.
struct remote_options {
  uint32_t max_pending_requests = 65'536;  ///< per peer; one more is answered `no_capacity`
  uint32_t max_relays = 16'384;            ///< of those, requests passed on for a third node
  uint32_t max_links = 65'536;             ///< per peer: our actors linked to actors of the peer
  uint32_t max_exports = 262'144;          ///< living actors whose handle was given away
  /// Per peer: small frames (monitors, deaths, refusals) that wait for room in its send queue.
  /// They must not be lost while the link lives, so the link is dropped when one more would wait.
  uint32_t max_waiting_control = 16'384;
  uint32_t inline_jobs = 1;      ///< actors run on the transport's thread per incoming frame
  uint32_t inline_messages = 4;  ///< messages each of them may handle there
  /// A request without an answer for so long is answered `deadline_exceeded`; its caller's own
  /// timeout is shorter, so this only bounds the table.
  std::chrono::nanoseconds longest_request = std::chrono::minutes{15};
  std::chrono::nanoseconds sweep_every = std::chrono::seconds{1};
};

/// Gauges and counters since the start. `received` is indexed by `wire::frame_kind`.
struct remote_stats {
  uint64_t peers = 0, proxies = 0, exports = 0, known_senders = 0, pending = 0;
  uint64_t sent = 0;           ///< frames handed to the transport
  uint64_t refused = 0;        ///< frames the transport did not take
  uint64_t bounced = 0;        ///< requests answered with an error by this layer
  uint64_t dropped = 0;        ///< messages nobody waits for: no such actor, dead proxy, full queue
  uint64_t stale_answers = 0;  ///< answers whose request was over
  uint64_t not_crossing = 0;   ///< messages of a type that may not cross (a bug of the sender)
  uint64_t relayed = 0;        ///< requests passed on for a third node
  uint64_t without_sender = 0;  ///< plain messages of a third node, delivered anonymously
  uint64_t inline_runs = 0;     ///< jobs run on the transport's thread
  std::array<uint64_t, 16> received{};
};

}  // namespace deepinfer
