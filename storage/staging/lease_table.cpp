#include "storage/staging/lease_table.hpp"

#include "proto/types/check.hpp"

namespace deepinfer::storage {

lease_table::lease_table(uint64_t capacity, uint64_t alignment)
    : capacity_(capacity / alignment * alignment), alignment_(alignment) {
  DEEPINFER_CHECK(alignment > 0 && (alignment & (alignment - 1)) == 0);
}

result<lease_table::lease> lease_table::grant(uint64_t bytes,
                                              time_point now,
                                              std::chrono::nanoseconds ttl) {
  if (bytes == 0) return failure{error_code::invalid_argument, "a lease of no bytes"};
  if (bytes > capacity_)
    return failure{error_code::invalid_argument,
                   "a lease of " + std::to_string(bytes) + " bytes from a staging area of " +
                       std::to_string(capacity_) + ": raise staging_bytes"};
  const uint64_t length = (bytes + alignment_ - 1) & ~(alignment_ - 1);
  uint64_t offset = 0;
  for (const auto& [start, taken] : taken_) {
    if (start - offset >= length) break;
    offset = start + taken;
  }
  if (capacity_ - offset < length) return failure{error_code::no_capacity, "staging area is full"};
  taken_.emplace(offset, length);
  used_ += length;
  const uint64_t id = next_id_++;
  const lease made{id, id, {offset, bytes}, now + ttl};
  leases_.emplace(id, made);
  return made;
}

result<void> lease_table::renew(uint64_t id, time_point now, std::chrono::nanoseconds ttl) {
  const auto found = leases_.find(id);
  if (found == leases_.end() || found->second.expires <= now)
    return failure{error_code::not_found, "the lease has ended"};
  found->second.expires = now + ttl;
  return {};
}

result<void> lease_table::keep(uint64_t id, time_point now, std::chrono::nanoseconds ttl) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return failure{error_code::not_found, "the lease has ended"};
  found->second.expires = now + ttl;
  return {};
}

result<void> lease_table::release(uint64_t id) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return failure{error_code::not_found, "the lease has ended"};
  const auto span = taken_.find(found->second.span.offset);
  used_ -= span->second;
  taken_.erase(span);
  leases_.erase(found);
  return {};
}

std::vector<uint64_t> lease_table::due(time_point now) const {
  std::vector<uint64_t> all;
  for (const auto& [id, held] : leases_)
    if (held.expires <= now) all.push_back(id);
  return all;
}

std::vector<uint64_t> lease_table::expire(time_point now) {
  const std::vector<uint64_t> ended = due(now);
  for (const uint64_t id : ended) static_cast<void>(release(id));
  return ended;
}

}  // namespace deepinfer::storage
