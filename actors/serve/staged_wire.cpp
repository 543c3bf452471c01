#include "actors/serve/staged_wire.hpp"

namespace deepinfer {

void write_bytes(wire::BulkRef::Builder out, const staged_where& where, const staged_part& part) {
  out.setRegion(where.region);
  out.setOffset(part.offset);
  out.setLength(part.length);
  out.setGeneration(where.generation);
  out.setDigestHi(part.digest_hi);
  out.setDigestLo(part.digest_lo);
}

void write_parts(capnp::List<wire::BulkPart>::Builder out, const staged_sequence& staged) {
  for (uint32_t i = 0; i < staged.parts.size(); ++i) {
    const staged_part& part = staged.parts[i];
    out[i].setKind(static_cast<wire::PartKind>(part.kind));
    out[i].setIndex(part.index);
    write_bytes(out[i].initBytes(), {staged.region, staged.generation}, part);
  }
}

void write_lease(wire::Lease::Builder out,
                 uint64_t id,
                 const actor_ref& owner,
                 std::chrono::milliseconds ttl) {
  out.setId(id);
  out.initNode().setHi(owner.node.hi);
  out.getNode().setLo(owner.node.lo);
  write_ref(out.initOwner(), owner);
  out.setTtlMs(static_cast<uint32_t>(ttl.count()));
}

}  // namespace deepinfer
