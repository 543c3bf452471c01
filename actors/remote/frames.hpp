#pragma once

#include "proto/types/error.hpp"
#include "runtime/net/transport.hpp"

#include <caf/error.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

/// What the remote layer puts into frame fields beyond `proto/codec/frame.hpp`.
namespace deepinfer::remote {

/// Actor numbers with this bit are requests that were passed on for a third node.
inline constexpr uint64_t relay_bit = uint64_t{1} << 63;

/// `aux` of a monitor or unmonitor frame that is about a link: the actor `source` of the sending
/// node wants `destination` to share its end.
inline constexpr uint64_t link_aux = 1;

/// A frame without a message: `why` becomes `aux` (the code) and the body (the detail).
[[nodiscard]] net::outgoing_frame failure_frame(wire::frame_kind kind, const failure& why);
[[nodiscard]] failure read_failure(const net::incoming_frame& frame);

/// An exit reason: none and CAF's own reasons arrive as they were (`type_id` holds 1 + the
/// reason), everything else as a failure.
[[nodiscard]] net::outgoing_frame reason_frame(wire::frame_kind kind, const caf::error& reason);
[[nodiscard]] caf::error read_reason(const net::incoming_frame& frame);

}  // namespace deepinfer::remote
