#pragma once

#include "proto/types/result.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace deepinfer {

/// XXH3-128 of some bytes: finds damage and names content within one trust domain. Not safe
/// against somebody who wants a collision.
struct digest128 {
  uint64_t hi = 0;
  uint64_t lo = 0;

  friend constexpr auto operator<=>(const digest128&, const digest128&) = default;
};

[[nodiscard]] digest128 digest_of(std::span<const std::byte> bytes) noexcept;
[[nodiscard]] digest128 digest_of(std::string_view text) noexcept;

/// 32 lower-case hex digits, high half first (the order `xxh128sum` prints).
[[nodiscard]] std::string to_hex(const digest128& digest);
/// Two lower-case hex digits a byte.
[[nodiscard]] std::string to_hex(std::span<const std::byte> bytes);

/// Reads what `to_hex` wrote; `invalid_argument` otherwise.
[[nodiscard]] result<digest128> parse_digest(std::string_view hex);

}  // namespace deepinfer
