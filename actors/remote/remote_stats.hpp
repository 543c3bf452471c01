#pragma once

#include <array>
#include <cstdint>

namespace deepinfer {

/// What the remote layer holds now, and what it did since the start.
struct remote_stats {
  uint64_t peers = 0, proxies = 0, exports = 0, known_senders = 0, pending = 0;
  uint64_t sent = 0;           ///< frames handed to the transport
  uint64_t refused = 0;        ///< frames the transport did not take
  uint64_t bounced = 0;        ///< requests answered with an error by this layer
  uint64_t dropped = 0;        ///< messages nobody waits for: no such actor, dead proxy, full queue
  uint64_t stale_answers = 0;  ///< answers whose request was over
  uint64_t not_crossing = 0;   ///< messages of a type that may not cross (a bug of the sender)
  uint64_t relayed = 0;        ///< requests passed on for a third node
  uint64_t without_sender = 0;          ///< plain messages of a third node, delivered anonymously
  uint64_t inline_runs = 0;             ///< jobs run on the transport's thread
  std::array<uint64_t, 16> received{};  ///< frames by `wire::frame_kind`
};

}  // namespace deepinfer
