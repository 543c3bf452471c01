#pragma once

#include "proto/types/ids.hpp"
#include "proto/wire/common.capnp.h"

#include <cstdint>
#include <string>

namespace deepinfer {

/// Numbers below this name well-known actors, the same on every node (`remote_hub::publish`);
/// all others are CAF's actor id plus this.
inline constexpr uint64_t first_dynamic_actor = 1024;

/// A handle in a form that may travel: one actor of one life of one node.
struct actor_ref {
  node_id node;
  uint64_t actor = 0;      ///< 0: nobody
  uint64_t interface = 0;  ///< `interface_hash` of the typed handle; 0: untyped

  friend bool operator==(const actor_ref&, const actor_ref&) = default;
  [[nodiscard]] explicit operator bool() const noexcept { return actor != 0; }
};

[[nodiscard]] actor_ref read_ref(wire::ActorRef::Reader from);
void write_ref(wire::ActorRef::Builder into, const actor_ref& ref);

/// "<number>@<first 8 digits of the node>", for logs.
[[nodiscard]] std::string to_string(const actor_ref& ref);

}  // namespace deepinfer
