#pragma once

#include "proto/types/result.hpp"

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace deepinfer {

/// One life of one node process: 128 random bits drawn at start, so a restarted process is a new
/// node and its old messages can never be taken for the new one's. All zero means "none".
struct node_id {
  uint64_t hi = 0;
  uint64_t lo = 0;

  friend constexpr auto operator<=>(const node_id&, const node_id&) = default;
  [[nodiscard]] constexpr explicit operator bool() const noexcept { return (hi | lo) != 0; }
};

/// One request of one client, unique in the cluster (random; printed as `req-<32 hex digits>`).
struct request_id {
  uint64_t hi = 0;
  uint64_t lo = 0;

  friend constexpr auto operator<=>(const request_id&, const request_id&) = default;
  [[nodiscard]] constexpr explicit operator bool() const noexcept { return (hi | lo) != 0; }
};

/// Number of a leg of a request (one placement on one engine). Raised by each hand-off, re-route
/// or migration; receivers drop messages of an older leg.
enum class leg_epoch : uint32_t {};

/// 32 lower-case hex digits.
[[nodiscard]] std::string to_string(const node_id& id);
[[nodiscard]] std::string to_string(const request_id& id);

/// Reads what `to_string` wrote; `invalid_argument` otherwise.
[[nodiscard]] result<node_id> parse_node_id(std::string_view text);

}  // namespace deepinfer

template <>
struct std::hash<deepinfer::node_id> {
  size_t operator()(const deepinfer::node_id& id) const noexcept {
    return id.hi ^ (id.lo * 0x9E3779B97F4A7C15u);
  }
};

template <>
struct std::hash<deepinfer::request_id> {
  size_t operator()(const deepinfer::request_id& id) const noexcept {
    return id.hi ^ (id.lo * 0x9E3779B97F4A7C15u);
  }
};
