#include "runtime/net/multicast_registry.hpp"

#include "proto/types/limits.hpp"
#include "runtime/net/owned_fd.hpp"
#include "runtime/net/proof.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>

namespace deepinfer::net {
namespace {

// Packet, little endian: magic 4, version 1, kind 1, flags 1, address length 1, cluster digest
// 16, node id 16, epoch 8, address, proof 32 (HMAC-SHA256 of all before; only with a secret).
constexpr std::string_view magic = "DPMC";
constexpr char version = 1;
constexpr char proven_flag = 1;
constexpr size_t cluster_bytes = 16;
constexpr size_t fixed_bytes = 4 + 4 + cluster_bytes + 16 + 8;
constexpr size_t max_packet_bytes = fixed_bytes + 255 + 32;
constexpr size_t packets_per_tick = 4 * limits::max_nodes;
constexpr auto answer_pause = std::chrono::milliseconds{200};  // a storm of queries is one answer

void put(std::string& out, uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>(value >> shift);
}

uint64_t take(std::string_view bytes, size_t offset) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i)
    value |= uint64_t{static_cast<unsigned char>(bytes[offset + i])} << (8 * i);
  return value;
}

std::string cluster_mark(const std::string& cluster) {
  const digest256 digest = plain_digest(cluster);
  return {reinterpret_cast<const char*>(digest.data()), cluster_bytes};
}

failure system_failure(const std::string& what) {
  return {error_code::unreachable, what + ": " + std::strerror(errno)};
}

result<owned_fd> open_socket(const multicast_config& config, sockaddr_in& group) {
  group = {};
  group.sin_family = AF_INET;
  group.sin_port = htons(config.port);
  if (::inet_pton(AF_INET, config.group.c_str(), &group.sin_addr) != 1 ||
      !IN_MULTICAST(ntohl(group.sin_addr.s_addr)) || config.port == 0)
    return failure{error_code::invalid_argument,
                   config.group + " is not an IPv4 multicast group with a port"};
  ip_mreqn where{};
  where.imr_multiaddr = group.sin_addr;
  if (!config.interface.empty()) {
    where.imr_ifindex = static_cast<int>(::if_nametoindex(config.interface.c_str()));
    if (where.imr_ifindex == 0)
      return failure{error_code::invalid_argument, "no network interface " + config.interface};
  }
  owned_fd fd{::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (!fd) return system_failure("cannot open a socket");
  const int on = 1;
  const int ttl = config.ttl;
  // several nodes of one machine share the port; bound to the group, unicast does not reach us
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&group), sizeof group) != 0 ||
      ::setsockopt(fd.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &where, sizeof where) != 0 ||
      ::setsockopt(fd.get(), IPPROTO_IP, IP_MULTICAST_IF, &where, sizeof where) != 0 ||
      ::setsockopt(fd.get(), IPPROTO_IP, IP_MULTICAST_TTL, &ttl, sizeof ttl) != 0 ||
      ::setsockopt(fd.get(), IPPROTO_IP, IP_MULTICAST_LOOP, &on, sizeof on) != 0)
    return system_failure("cannot join multicast group " + config.group +
                          " (name an interface, or use join addresses)");
  return fd;
}

class multicast_registry final : public registry {
public:
  multicast_registry(const multicast_config& config, owned_fd fd, const sockaddr_in& group)
      : config_(config), fd_(std::move(fd)), group_(group) {}
  ~multicast_registry() override { withdraw(); }

  result<void> announce(const registry_record& record) override {
    if (!dialable(record.address))
      return failure{error_code::invalid_argument,
                     "address " + record.address + " cannot be announced"};
    own_ = record;
    announced_.reset();
    return transmit(multicast_kind::announce);
  }

  result<std::vector<std::string>> discover(std::chrono::nanoseconds now) override {
    if (!asked_) {
      asked_ = true;
      if (auto sent = transmit(multicast_kind::query); !sent) return sent.error();
    }
    receive(now);
    if (own_ && (!announced_ || now - *announced_ >= config_.announce_interval ||
                 (asked_by_other_ && now - *announced_ >= answer_pause))) {
      if (auto sent = transmit(multicast_kind::announce); !sent) return sent.error();
      announced_ = now;
      asked_by_other_ = false;
    }
    std::vector<std::string> found;
    for (auto it = heard_.begin(); it != heard_.end();) {
      if (now - it->second.at > config_.forget_after) {
        it = heard_.erase(it);
        continue;
      }
      found.push_back(it->second.address);
      ++it;
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  void withdraw() override {
    if (own_) (void)transmit(multicast_kind::leave).has_value();
    own_.reset();
  }

private:
  struct heard {
    std::string address;
    std::chrono::nanoseconds at{};
  };

  /// A full socket buffer loses the packet, as the network may; the next interval repeats it.
  result<void> transmit(multicast_kind kind) {
    const std::string bytes = write_packet({kind, own_.value_or(registry_record{})}, config_);
    const ssize_t sent = ::sendto(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL,
                                  reinterpret_cast<const sockaddr*>(&group_), sizeof group_);
    if (sent < 0 && errno != EAGAIN && errno != ENOBUFS && errno != EINTR)
      return system_failure("cannot send to multicast group " + config_.group);
    return {};
  }

  void receive(std::chrono::nanoseconds now) {
    std::array<std::byte, max_packet_bytes + 1> buffer;
    for (size_t count = 0; count < packets_per_tick; ++count) {
      const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return;
      const auto packet = read_packet(std::span{buffer}.first(static_cast<size_t>(got)), config_);
      if (packet) take(*packet, now);
    }
  }

  void take(const multicast_packet& packet, std::chrono::nanoseconds now) {
    if (own_ && packet.record.id == own_->id) return;  // our own voice
    switch (packet.kind) {
      case multicast_kind::query:
        asked_by_other_ = true;
        return;
      case multicast_kind::leave:
        heard_.erase(packet.record.id);
        return;
      case multicast_kind::announce:
        if (heard_.size() < limits::max_nodes || heard_.contains(packet.record.id))
          heard_[packet.record.id] = {packet.record.address, now};
        return;
    }
  }

  multicast_config config_;
  owned_fd fd_;
  sockaddr_in group_;
  std::optional<registry_record> own_;
  std::optional<std::chrono::nanoseconds> announced_;
  std::map<node_id, heard> heard_;
  bool asked_ = false;
  bool asked_by_other_ = false;
};

}  // namespace

std::string write_packet(const multicast_packet& packet, const multicast_config& config) {
  std::string out{magic};
  out += version;
  out += static_cast<char>(packet.kind);
  out += config.secret.empty() ? char{0} : proven_flag;
  out += static_cast<char>(packet.record.address.size());
  out += cluster_mark(config.cluster);
  put(out, packet.record.id.hi);
  put(out, packet.record.id.lo);
  put(out, packet.record.epoch);
  out += packet.record.address;
  if (!config.secret.empty()) {
    const digest256 proof = keyed_digest(config.secret, bytes_of(out));
    out.append(reinterpret_cast<const char*>(proof.data()), proof.size());
  }
  return out;
}

std::optional<multicast_packet> read_packet(std::span<const std::byte> bytes,
                                            const multicast_config& config) {
  const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  if (text.size() < fixed_bytes || !text.starts_with(magic) || text[4] != version)
    return std::nullopt;
  const bool proven = !config.secret.empty();
  const size_t address_bytes = static_cast<unsigned char>(text[7]);
  const size_t content_bytes = fixed_bytes + address_bytes;
  if (text[6] != (proven ? proven_flag : char{0}) ||
      text.size() != content_bytes + (proven ? sizeof(digest256) : 0) ||
      text.substr(8, cluster_bytes) != cluster_mark(config.cluster))
    return std::nullopt;
  if (proven && !same_digest(keyed_digest(config.secret, bytes.first(content_bytes)),
                             bytes.subspan(content_bytes)))
    return std::nullopt;

  multicast_packet packet;
  packet.kind = static_cast<multicast_kind>(text[5]);
  packet.record.id = {take(text, 24), take(text, 32)};
  packet.record.epoch = take(text, 40);
  packet.record.address = text.substr(fixed_bytes, address_bytes);
  switch (packet.kind) {
    case multicast_kind::query:
    case multicast_kind::leave:
      return packet;
    case multicast_kind::announce:
      if (!packet.record.id || !dialable(packet.record.address)) return std::nullopt;
      return packet;
  }
  return std::nullopt;
}

result<std::unique_ptr<registry>> make_multicast_registry(const multicast_config& config) {
  sockaddr_in group;
  auto fd = open_socket(config, group);
  if (!fd) return fd.error();
  return std::unique_ptr<registry>{
      std::make_unique<multicast_registry>(config, *std::move(fd), group)};
}

}  // namespace deepinfer::net
