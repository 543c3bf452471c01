#pragma once

#include "proto/types/result.hpp"

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace deepinfer::storage {

/// Names a block by everything that is in front of it and in it: the first 128 bits of the SHA-256
/// chain of `chain_hasher.hpp`. All zero means "none".
struct block_key {
  uint64_t hi = 0;
  uint64_t lo = 0;

  friend constexpr auto operator<=>(const block_key&, const block_key&) = default;
  [[nodiscard]] constexpr explicit operator bool() const noexcept { return (hi | lo) != 0; }
};

inline constexpr size_t key_bytes = 16;

/// Big-endian, so that keys sort as their bytes do.
[[nodiscard]] std::array<std::byte, key_bytes> to_bytes(const block_key& key);
[[nodiscard]] block_key key_from_bytes(const std::byte* bytes);

/// 32 lower-case hex digits, for people and tools; never in metric labels or default logs (SEC-5).
[[nodiscard]] std::string to_string(const block_key& key);
/// Reads what `to_string` wrote; `invalid_argument` otherwise.
[[nodiscard]] result<block_key> parse_block_key(std::string_view text);

}  // namespace deepinfer::storage

template <>
struct std::hash<deepinfer::storage::block_key> {
  size_t operator()(const deepinfer::storage::block_key& key) const noexcept {
    return key.lo;  // already uniform
  }
};
