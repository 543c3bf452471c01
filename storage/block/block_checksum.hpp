#pragma once

#include "storage/block/block_key.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace deepinfer::storage {

/// Checksum of a block's bytes and of whose bytes they are (KV-29): XXH3-64, seeded by the key.
/// Guards against damage and misplaced bytes, not against somebody who may write the files.
[[nodiscard]] uint64_t block_checksum(const block_key& key, std::span<const std::byte> bytes);

}  // namespace deepinfer::storage
