#pragma once

#include "actors/messages/caf_messages.hpp"
#include "actors/remote/actor_ref.hpp"
#include "actors/serve/staging_area.hpp"
#include "proto/wire/kv.capnp.h"

#include <chrono>
#include <cstdint>

/// What lies in a staging area, in the words of `proto/wire/kv.capnp`.
namespace deepinfer {

/// Where a region's bytes are, of which life of the buffer.
struct staged_where {
  uint64_t region = 0;
  uint64_t generation = 0;
};

void write_bytes(wire::BulkRef::Builder out, const staged_where& where, const staged_part& part);
/// As many as there are; `out` has their number.
void write_parts(capnp::List<wire::BulkPart>::Builder out, const staged_sequence& staged);
/// `owner` takes `LeaseRelease`, and lives where the bytes do.
void write_lease(wire::Lease::Builder out,
                 uint64_t id,
                 const actor_ref& owner,
                 std::chrono::milliseconds ttl);

}  // namespace deepinfer
