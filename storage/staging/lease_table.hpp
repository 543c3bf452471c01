#pragma once

#include "proto/types/result.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace deepinfer::storage {

/// A time in the clock of the caller (steady, or virtual in simulation).
using time_point = std::chrono::nanoseconds;

/// A span of the staging area, in bytes from its start.
struct staging_span {
  uint64_t offset = 0;
  uint64_t length = 0;
};

/// Bookkeeping of a staging area: which spans hold bytes that somebody else may be reading, and
/// until when. Pure: no memory, no clock. A span is given out again only after its lease was
/// released or has expired, and never with the same generation; so a dead reader frees nothing
/// too late, and a late reader can tell that its bytes are gone.
class lease_table {
public:
  struct lease {
    uint64_t id = 0;
    uint64_t generation = 0;
    staging_span span;
    time_point expires{};
  };

  /// `capacity` bytes, spans aligned to `alignment` (a power of two).
  lease_table(uint64_t capacity, uint64_t alignment);

  /// First fit. `no_capacity` if no gap is long enough, `invalid_argument` for zero bytes or for
  /// more than the whole area.
  result<lease> grant(uint64_t bytes, time_point now, std::chrono::nanoseconds ttl);

  /// Moves the end of a live lease to `now + ttl`; `not_found` if it ended before.
  result<void> renew(uint64_t id, time_point now, std::chrono::nanoseconds ttl);

  /// The same by the owner of the memory, also of a lease that is due and was not ended yet.
  result<void> keep(uint64_t id, time_point now, std::chrono::nanoseconds ttl);

  /// Frees the span. `not_found` if the lease ended before: harmless, the reader was late.
  result<void> release(uint64_t id);

  /// Those that `expire` would end.
  [[nodiscard]] std::vector<uint64_t> due(time_point now) const;

  /// Ends every lease with `expires <= now` and returns their ids.
  std::vector<uint64_t> expire(time_point now);

  [[nodiscard]] uint64_t used_bytes() const { return used_; }
  [[nodiscard]] size_t live() const { return leases_.size(); }
  [[nodiscard]] uint64_t capacity() const { return capacity_; }

private:
  uint64_t capacity_;
  uint64_t alignment_;
  uint64_t used_ = 0;
  uint64_t next_id_ = 1;
  std::map<uint64_t, lease> leases_;    // by id
  std::map<uint64_t, uint64_t> taken_;  // offset -> length, aligned
};

}  // namespace deepinfer::storage
