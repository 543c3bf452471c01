#pragma once

#include "proto/types/result.hpp"
#include "runtime/model/step_model.hpp"
#include "runtime/net/transport.hpp"
#include "storage/staging/lease_table.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace deepinfer {

/// Where one part of a staged sequence lies; goes into a `wire::BulkPart`.
struct staged_part {
  model::part_kind kind{};
  uint32_t index = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t digest_hi = 0;
  uint64_t digest_lo = 0;
};

struct staged_sequence {
  uint64_t region = 0;
  uint64_t lease = 0;
  uint64_t generation = 0;
  std::vector<staged_part> parts;
};

/// Room under a lease, to be filled by whoever asked for it.
struct staged_room {
  uint64_t region = 0;
  uint64_t lease = 0;
  uint64_t generation = 0;
  uint64_t offset = 0;  ///< of `bytes` in the region
  std::span<std::byte> bytes;
};

/// Registered memory of one actor from which others read one-sided: sequences of an engine, blocks
/// of a store. What is staged stays until its lease is released or expires; the memory is used
/// again only then.
class staging_area {
public:
  /// Maps and registers `bytes` (address space; pages are touched when used). `transport` must
  /// outlive the area.
  static result<std::unique_ptr<staging_area>> make(net::transport& transport, uint64_t bytes);
  ~staging_area();
  staging_area(const staging_area&) = delete;
  staging_area& operator=(const staging_area&) = delete;

  /// Copies the parts behind each other under one lease. `no_capacity` while too much is staged.
  result<staged_sequence> stage(std::span<const model::state_part> parts,
                                storage::time_point now,
                                std::chrono::nanoseconds ttl);

  /// What was staged there; valid until something else is staged after its lease has ended.
  [[nodiscard]] std::span<const std::byte> bytes_of(const staged_part& part) const {
    return memory_.subspan(part.offset, part.length);
  }
  /// Room without content. `no_capacity` while too much is staged.
  result<staged_room> reserve(uint64_t bytes,
                              storage::time_point now,
                              std::chrono::nanoseconds ttl);

  [[nodiscard]] storage::lease_table& leases() { return leases_; }
  [[nodiscard]] const storage::lease_table& leases() const { return leases_; }

private:
  staging_area(net::transport& transport,
               std::span<std::byte> memory,
               const net::memory_region& region);

  net::transport& transport_;
  std::span<std::byte> memory_;
  net::memory_region region_;
  storage::lease_table leases_;
};

}  // namespace deepinfer
