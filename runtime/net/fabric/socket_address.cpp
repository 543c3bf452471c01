#include "runtime/net/fabric/socket_address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <charconv>
#include <cstring>
#include <memory>

namespace deepinfer::net {
namespace {

constexpr size_t max_addresses = 64;  // of one name

sockaddr_in& v4(socket_address& a) {
  return reinterpret_cast<sockaddr_in&>(a.storage);
}
const sockaddr_in& v4(const socket_address& a) {
  return reinterpret_cast<const sockaddr_in&>(a.storage);
}
sockaddr_in6& v6(socket_address& a) {
  return reinterpret_cast<sockaddr_in6&>(a.storage);
}
const sockaddr_in6& v6(const socket_address& a) {
  return reinterpret_cast<const sockaddr_in6&>(a.storage);
}

socket_address copy_of(const sockaddr* from, socklen_t length) {
  socket_address out;
  std::memcpy(&out.storage, from, length);
  out.length = length;
  return out;
}

}  // namespace

uint16_t socket_address::port() const {
  return ntohs(storage.ss_family == AF_INET6 ? v6(*this).sin6_port : v4(*this).sin_port);
}

void socket_address::set_port(uint16_t port) {
  (storage.ss_family == AF_INET6 ? v6(*this).sin6_port : v4(*this).sin_port) = htons(port);
}

bool socket_address::is_loopback() const {
  if (storage.ss_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&v6(*this).sin6_addr) != 0;
  return (ntohl(v4(*this).sin_addr.s_addr) >> 24) == 127;
}

bool socket_address::is_any() const {
  if (storage.ss_family == AF_INET6) return IN6_IS_ADDR_UNSPECIFIED(&v6(*this).sin6_addr) != 0;
  return v4(*this).sin_addr.s_addr == htonl(INADDR_ANY);
}

std::string socket_address::host() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* from = storage.ss_family == AF_INET6 ? static_cast<const void*>(&v6(*this).sin6_addr)
                                                   : &v4(*this).sin_addr;
  if (::inet_ntop(storage.ss_family, from, text.data(), text.size()) == nullptr) return {};
  return text.data();
}

result<host_and_port> split_address(const std::string& address) {
  const failure wrong{error_code::invalid_argument,
                      "'" + address + "' is no address: write host:port or [v6]:port"};
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || address.size() > 255) return wrong;
  host_and_port out;
  out.host = address.substr(0, colon);
  if (out.host.starts_with('[') && out.host.ends_with(']') && out.host.size() > 2)
    out.host = out.host.substr(1, out.host.size() - 2);
  else if (out.host.find(':') != std::string::npos)
    return wrong;
  const char* const end = address.data() + address.size();
  const auto read = std::from_chars(address.data() + colon + 1, end, out.port);
  if (out.host.empty() || read.ec != std::errc{} || read.ptr != end || out.port == 0) return wrong;
  return out;
}

std::string join_address(const std::string& host, uint16_t port) {
  const bool brackets = host.find(':') != std::string::npos;
  return (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

result<socket_address> numeric_address(const host_and_port& where) {
  socket_address out;
  if (::inet_pton(AF_INET, where.host.c_str(), &v4(out).sin_addr) == 1) {
    out.storage.ss_family = AF_INET;
    out.length = sizeof(sockaddr_in);
  } else if (::inet_pton(AF_INET6, where.host.c_str(), &v6(out).sin6_addr) == 1) {
    out.storage.ss_family = AF_INET6;
    out.length = sizeof(sockaddr_in6);
  } else {
    return failure{error_code::invalid_argument, where.host + " is not a numeric address"};
  }
  out.set_port(where.port);
  return out;
}

result<std::vector<socket_address>> look_up(const host_and_port& where) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* list = nullptr;
  const int code =
      ::getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &list);
  if (code != 0)
    return failure{error_code::unreachable,
                   "cannot resolve " + where.host + ": " + ::gai_strerror(code)};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner{list, &::freeaddrinfo};
  std::vector<socket_address> out;
  for (const addrinfo* entry = list; entry != nullptr && out.size() < max_addresses;
       entry = entry->ai_next)
    if (entry->ai_family == AF_INET || entry->ai_family == AF_INET6)
      out.push_back(copy_of(entry->ai_addr, entry->ai_addrlen));
  if (out.empty()) return failure{error_code::unreachable, where.host + " has no usable address"};
  return out;
}

std::string first_own_address(int family) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner{list, &::freeifaddrs};
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
    if ((entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const socket_address address =
        copy_of(entry->ifa_addr, family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    // a link-local address means nothing without its interface
    if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6(address).sin6_addr)) continue;
    return address.host();
  }
  return {};
}

}  // namespace deepinfer::net
