#pragma once

#include "proto/codec/msg.hpp"
#include "proto/wire/introspect.capnp.h"

#include <string>

namespace deepinfer {

/// The contract of `console topology --json`:
/// {"cluster","self","coordinator"?,"nodes":[{"id","address","roles","epoch","state","uptime_s","services"}],
///  "actors":[{"kind","id","node","state","mailbox","counters":{}}],
///  "edges":[{"from","to","messages"}],"unreachable":[node id]}.
/// Actors are named "<number>@<node id>" in edges, which is what `id` and `node` say apart.
[[nodiscard]] std::string topology_json(wire::Topology::Reader topology);

/// {"node","lines":[...]}: the last log lines of one node.
[[nodiscard]] std::string events_json(wire::LocalTopology::Reader node);

}  // namespace deepinfer
