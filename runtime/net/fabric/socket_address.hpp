#pragma once

#include "proto/types/result.hpp"

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

namespace deepinfer::net {

/// An IPv4 or IPv6 address with port.
struct socket_address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] uint16_t port() const;
  void set_port(uint16_t port);
  [[nodiscard]] bool is_loopback() const;
  [[nodiscard]] bool is_any() const;
  /// Without port: "10.0.0.1", "fe80::1".
  [[nodiscard]] std::string host() const;
};

struct host_and_port {
  std::string host;
  uint16_t port = 0;
};

/// Takes "host:port" or "[v6]:port" apart; `invalid_argument` otherwise.
[[nodiscard]] result<host_and_port> split_address(const std::string& address);
/// The inverse; brackets an IPv6 host.
[[nodiscard]] std::string join_address(const std::string& host, uint16_t port);

/// An address from digits, without a look-up; `invalid_argument` for a name.
[[nodiscard]] result<socket_address> numeric_address(const host_and_port& where);
/// All addresses of a name. Blocks as long as the system's resolver does.
[[nodiscard]] result<std::vector<socket_address>> look_up(const host_and_port& where);
/// The first address of an interface that is up and not loopback; empty if there is none.
[[nodiscard]] std::string first_own_address(int family);

}  // namespace deepinfer::net
