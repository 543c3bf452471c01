#include "storage/block/block_checksum.hpp"

#include <xxhash.h>

namespace deepinfer::storage {

uint64_t block_checksum(const block_key& key, std::span<const std::byte> bytes) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), key.hi ^ key.lo);
}

}  // namespace deepinfer::storage
