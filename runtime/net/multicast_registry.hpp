#pragma once

#include "runtime/net/registry.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace deepinfer::net {

struct multicast_config {
  std::string group = "239.255.74.0";  ///< IPv4, of the site-local block
  uint16_t port = 7402;
  std::string interface;  ///< "eth0"; empty: the one the system's routes choose
  uint8_t ttl = 1;        ///< 1 = this link only
  std::string cluster = "default";
  std::string secret;  ///< if set: packets carry a proof, and those without are ignored
  std::chrono::milliseconds announce_interval{2000};
  std::chrono::milliseconds forget_after{7000};
};

/// Nodes of one LAN hear each other's announcements. The socket is read and written only inside
/// `discover`, so the caller's tick is the clock. `unreachable` when the group cannot be joined.
[[nodiscard]] result<std::unique_ptr<registry>> make_multicast_registry(
    const multicast_config& config);

enum class multicast_kind : uint8_t { announce = 1, query = 2, leave = 3 };

struct multicast_packet {
  multicast_kind kind = multicast_kind::query;
  registry_record record;
};

/// The bytes of a packet, proof included. Exposed for the tests of the parser.
[[nodiscard]] std::string write_packet(const multicast_packet& packet,
                                       const multicast_config& config);
/// Nothing unless every byte is as `write_packet` of the same cluster and secret writes it.
[[nodiscard]] std::optional<multicast_packet> read_packet(std::span<const std::byte> bytes,
                                                          const multicast_config& config);

}  // namespace deepinfer::net
