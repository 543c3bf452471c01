#pragma once

#include "runtime/net/fabric/ofi.hpp"
#include "runtime/net/fabric/socket_address.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// The yardstick: libfabric itself, with the same provider, endpoint type and wait descriptors as
/// the transport, and nothing else.
namespace deepinfer::net {

/// One connected endpoint used by one thread.
class raw_endpoint {
public:
  /// Connects to a `raw_server`.
  static result<std::unique_ptr<raw_endpoint>> connect(const std::string& provider,
                                                       const socket_address& target);

  /// Round trips of `payload` bytes; the time of each in nanoseconds.
  result<std::vector<double>> ping(size_t payload, size_t count);

  struct read_plan {
    uint64_t address = 0;
    uint64_t key = 0;
    size_t region_bytes = 0;
    size_t block_bytes = 0;
    size_t in_flight = 0;
    size_t blocks = 0;
  };
  /// One-sided reads of `blocks` blocks; bytes per second.
  result<double> read(const read_plan& plan);

private:
  friend class raw_server;
  raw_endpoint() = default;
  /// Receive buffers, posted; called between opening the endpoint and connecting it.
  [[nodiscard]] result<void> prepare();
  /// The next completion, asleep until there is one.
  [[nodiscard]] result<fi_cq_data_entry> next_completion();
  [[nodiscard]] result<void> send(std::span<const std::byte> bytes);

  static constexpr size_t longest_ping = 4096;
  static constexpr size_t inject_bytes = 128;
  ofi_info info_;
  ofi_fabric fabric_;
  ofi_domain domain_;
  ofi_eq events_;
  ofi_cq queue_;
  ofi_region into_region_;
  std::vector<std::byte> into_;
  std::array<std::array<std::byte, longest_ping>, 4> buffers_;
  std::array<fi_context2, 4> receives_{};
  fi_context2 sending_{};
  ofi_endpoint endpoint_;
};

/// Accepts one connection, answers its pings and serves reads of its memory, until it closes.
class raw_server {
public:
  static result<std::unique_ptr<raw_server>> open(const std::string& provider,
                                                  std::span<std::byte> memory);
  [[nodiscard]] const socket_address& where() const { return where_; }
  [[nodiscard]] uint64_t base() const { return base_; }
  [[nodiscard]] uint64_t key() const { return fi_mr_key(region_.get()); }
  /// Blocks until the peer has closed.
  result<void> serve();

private:
  raw_server() = default;
  raw_endpoint side_;  ///< before the rest: closed last
  ofi_region region_;
  ofi_passive listener_;
  socket_address where_;
  uint64_t base_ = 0;
};

}  // namespace deepinfer::net
