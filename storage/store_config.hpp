#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace deepinfer::storage {

/// What `commit` waits for. In no case is a wrong block served: bytes that a power loss tore fail
/// their checksum and are lost.
enum class durability : uint8_t {
  process,  ///< survives the death of the process: bytes and index are with the kernel
  index,    ///< bytes are on the device before the index names them, the index follows in time
  full,     ///< both are on the device
};

/// How a store counts time and space; every limit it enforces.
struct store_config {
  uint64_t capacity_bytes = uint64_t{64} << 30;  ///< of segment files
  uint64_t segment_bytes = uint64_t{128} << 20;
  double high_mark = 0.90;      ///< of the capacity: `relieve` begins (KV-16)
  double low_mark = 0.85;       ///< and ends
  double compact_below = 0.50;  ///< live share under which a segment is rewritten (KV-22)
  durability durable = durability::process;

  std::chrono::milliseconds ttl_agent = std::chrono::hours{72};
  std::chrono::milliseconds ttl_chat = std::chrono::hours{168};
  std::chrono::milliseconds floor = std::chrono::hours{72};  ///< younger evictions are an alarm
  std::chrono::milliseconds lease_ttl = std::chrono::seconds{30};
  std::chrono::milliseconds reservation_ttl = std::chrono::seconds{60};
  std::chrono::milliseconds clock_jump = std::chrono::minutes{5};
  std::chrono::milliseconds longest_downtime = std::chrono::hours{24};

  uint64_t default_quota_bytes = UINT64_MAX;  ///< of a scope without one of its own
  uint64_t max_reserved_bytes = uint64_t{2} << 30;
  size_t max_reservations = 65'536;
  size_t max_leases = 65'536;
  size_t max_batch = 4'096;  ///< items of one call
  size_t max_query_blocks = 16'384;
  uint32_t purge_blocks =
      8'192;                     ///< of a scope, in one part of its purge; bounds how long it locks
  size_t feed_changes = 65'536;  ///< kept for readers of the change stream
  size_t expected_blocks = 0;    ///< index space made at once
  /// Of a store whose earlier lives left no record of themselves: lives are numbered from here on,
  /// so that leases and readers of an earlier one are told from this one's.
  uint64_t least_epoch = 0;
  /// Where a chain may begin: 0 at its first block alone; n at every n-th, for stores that share
  /// long chains among them. The block in front of such a head is another store's concern.
  uint32_t group_blocks = 0;
};

/// A refresh moves the end of life to the next multiple of ttl / 64, so that one block is written
/// at most once in that time, and a parent's end is never before its child's (KV-10, KV-13).
inline constexpr int64_t refresh_steps = 64;

}  // namespace deepinfer::storage
