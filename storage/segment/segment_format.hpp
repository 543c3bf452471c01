#pragma once

#include "storage/block/block_record.hpp"

#include <array>
#include <string>
#include <string_view>

/// A segment file: one unit of header, then blocks back to back, each padded to whole units with a
/// footer in its last 64 bytes. Written once, front to back, by one writer; never changed after.
/// The footers let a checker that has no index name what it finds.
namespace deepinfer::storage {

inline constexpr size_t segment_header_bytes = location_unit;

struct segment_header {
  uint32_t segment = 0;
};

struct block_footer {
  block_key key;
  uint32_t length = 0;
  uint64_t checksum = 0;

  friend bool operator==(const block_footer&, const block_footer&) = default;
};

[[nodiscard]] std::string segment_name(uint32_t segment);
/// 0 for names that are not segments'.
[[nodiscard]] uint32_t segment_of_name(std::string_view name);

[[nodiscard]] std::vector<std::byte> encode_segment_header(const segment_header& header);
[[nodiscard]] result<segment_header> decode_segment_header(std::span<const std::byte> bytes);

/// What stands behind a block's bytes: zeros and the footer, to the end of its last unit.
[[nodiscard]] std::vector<std::byte> encode_tail(const block_footer& footer);
/// From the last 64 bytes of a block.
[[nodiscard]] result<block_footer> decode_footer(std::span<const std::byte> bytes);

}  // namespace deepinfer::storage
