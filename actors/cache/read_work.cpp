#include "actors/cache/read_work.hpp"

#include "actors/serve/staged_wire.hpp"
#include "runtime/base/digest.hpp"

namespace deepinfer {

using wire::KvReadStatus;

namespace {

constexpr uint64_t alignment = 64;

uint64_t aligned(uint64_t bytes) {
  return (bytes + alignment - 1) & ~(alignment - 1);
}

KvReadStatus status_of(storage::read_status status) {
  switch (status) {
    case storage::read_status::ok:
      return KvReadStatus::OK;
    case storage::read_status::absent:
      return KvReadStatus::ABSENT;
    case storage::read_status::bad:
      return KvReadStatus::BAD;
    case storage::read_status::stale:
      return KvReadStatus::STALE;
    default:
      return KvReadStatus::FAILED;
  }
}

}  // namespace

uint64_t read_work::room_for(size_t count) const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) bytes += aligned(places[i].length);
  return bytes;
}

void read_blocks(storage::block_store& store, read_work& work, const storage::clock_reading& now) {
  work.statuses.assign(work.keys.size(), KvReadStatus::NO_ROOM);
  work.parts.assign(work.keys.size(), {});
  std::vector<storage::read_item> items;
  uint64_t offset = 0;
  for (size_t i = 0; i < work.admitted; ++i) {
    const uint64_t length = work.places[i].length;
    items.push_back({work.keys[i], work.room.bytes.subspan(offset, length), work.check});
    work.parts[i].offset = work.room.offset + offset;
    offset += aligned(length);
  }
  if (items.empty()) return;
  const auto answers = store.read(items, work.lease, now);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!answers) {
      work.statuses[i] = KvReadStatus::FAILED;
      continue;
    }
    const storage::read_outcome& one = (*answers)[i];
    work.statuses[i] = status_of(one.status);
    if (one.status != storage::read_status::ok) continue;
    const auto bytes = items[i].into.first(one.length);
    // The block may have been stored anew since the question: what was read decides.
    work.places[i].checksum = one.checksum;
    work.parts[i].length = one.length;
    if (!work.digests) continue;
    const auto digest = digest_of(bytes);
    work.parts[i].digest_hi = digest.hi;
    work.parts[i].digest_lo = digest.lo;
  }
}

wire::msg<wire::KvReadDone> read_done(const read_work& work,
                                      const actor_ref& owner,
                                      std::chrono::milliseconds ttl) {
  wire::draft<wire::KvReadDone> out;
  auto list = out->initBlocks(static_cast<uint32_t>(work.keys.size()));
  for (uint32_t i = 0; i < work.keys.size(); ++i) {
    list[i].setStatus(work.statuses[i]);
    if (work.statuses[i] != KvReadStatus::OK) continue;
    list[i].setChecksum(work.places[i].checksum);
    write_bytes(list[i].initBytes(), {work.room.region, work.room.generation}, work.parts[i]);
  }
  write_lease(out->initLease(), work.room.lease, owner, ttl);
  return out.freeze();
}

wire::msg<wire::KvReadDone> read_done(size_t blocks, KvReadStatus status) {
  wire::draft<wire::KvReadDone> out;
  auto list = out->initBlocks(static_cast<uint32_t>(blocks));
  for (uint32_t i = 0; i < blocks; ++i) list[i].setStatus(status);
  return out.freeze();
}

}  // namespace deepinfer
