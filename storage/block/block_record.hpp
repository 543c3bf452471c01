#pragma once

#include "storage/block/chain_hasher.hpp"

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

namespace deepinfer::storage {

/// A time of the cluster's clock, since its epoch.
using cluster_time = std::chrono::milliseconds;

/// Traffic classes decide how long a block lives (KV-12); a record keeps the set it was used by.
enum class traffic_class : uint8_t { agent = 1, chat = 2 };
using class_mask = uint8_t;
[[nodiscard]] constexpr class_mask mask_of(traffic_class c) {
  return static_cast<class_mask>(c);
}

/// Readers see only `committed`. `doomed` blocks failed verification or were purged: never offered
/// again, their space is not yet free.
enum class block_state : uint8_t { reserved = 0, committed = 1, doomed = 2 };

/// Where bytes lie: file number and offset in it. Offsets are multiples of `location_unit`.
struct block_location {
  uint32_t segment = 0;
  uint64_t offset = 0;

  friend bool operator==(const block_location&, const block_location&) = default;
};
inline constexpr uint64_t location_unit = 4096;

/// Who wrote it: an instance and its life. Reservations of an older life are refused (KV-19).
struct writer_ref {
  uint64_t id = 0;
  uint64_t epoch = 0;

  friend bool operator==(const writer_ref&, const writer_ref&) = default;
};

/// What is known about one block (KV-8), except its content (tokens and media), which is kept
/// beside it because scanning ten million records must not read their tokens.
struct block_record {
  block_key key;
  block_key parent;  ///< the chain's root for depth 0
  scope_id scope{};
  uint32_t depth = 0;  ///< index of the block in its sequence
  uint32_t length = 0;
  block_location location;
  uint64_t checksum = 0;
  uint64_t content_digest = 0;
  cluster_time created{};
  cluster_time accessed{};
  cluster_time expiry{};
  writer_ref writer;
  block_state state = block_state::reserved;
  class_mask classes = 0;

  friend bool operator==(const block_record&, const block_record&) = default;
};

inline constexpr uint32_t max_block_bytes = 64u << 20;
inline constexpr size_t record_bytes = 120;  ///< of version 1, without the key

/// Everything but the key, which names the record: fixed size, little-endian, version first,
/// XXH3-64 of key and fields last.
[[nodiscard]] std::vector<std::byte> encode_record(const block_record& record);

/// `corrupt` for a wrong size, checksum or field out of range, `unsupported` for another version.
[[nodiscard]] result<block_record> decode_record(const block_key& key,
                                                 std::span<const std::byte> bytes);

/// A content with its own version and checksum.
[[nodiscard]] std::vector<std::byte> encode_content(const block_key& key,
                                                    std::span<const std::byte> content);
[[nodiscard]] result<block_content> decode_content(const block_key& key,
                                                   std::span<const std::byte> bytes);

}  // namespace deepinfer::storage
