#pragma once

#include "proto/codec/msg.hpp"
#include "proto/wire/introspect.capnp.h"

#include <string>

namespace deepinfer {

/// The counters and gauges of a node's living actors as Prometheus text:
/// `deepinfer_actor{kind="decode",actor="1033",name="sequences"} 3` and
/// `deepinfer_actor_mailbox{kind,actor}`. Actors that come and go with each request are left out,
/// so that the number of series is bounded by what a node is made of.
[[nodiscard]] std::string actor_metrics_text(wire::LocalTopology::Reader node);

}  // namespace deepinfer
