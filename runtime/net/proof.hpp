#pragma once

#include "proto/types/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

/// The few cryptographic functions of this room, on OpenSSL.
namespace deepinfer::net {

using digest256 = std::array<std::byte, 32>;

/// HMAC-SHA256 of the concatenated `parts`. Empty key allowed: it then proves nothing.
[[nodiscard]] digest256 keyed_digest(std::string_view key,
                                     std::span<const std::span<const std::byte>> parts);
[[nodiscard]] digest256 keyed_digest(std::string_view key, std::span<const std::byte> data);

/// SHA-256.
[[nodiscard]] digest256 plain_digest(std::string_view text);

/// Compares in a time that does not depend on where the first difference is.
[[nodiscard]] bool same_digest(std::span<const std::byte> a, std::span<const std::byte> b);

/// Fresh unpredictable bytes from OpenSSL's generator: the one place below `actors/` that draws
/// unseeded randomness, because a challenge that can be foreseen can be answered from a record.
[[nodiscard]] result<digest256> draw_nonce();

[[nodiscard]] inline std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace deepinfer::net
