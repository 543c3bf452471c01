#pragma once

#include "proto/codec/frame.hpp"
#include "runtime/net/fabric/hello.hpp"
#include "runtime/net/fabric/ofi.hpp"
#include "runtime/net/fabric/socket_address.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

namespace deepinfer::test {

/// Speaks libfabric and the handshake by hand, to say things that no node says. It knows the
/// secret unless told otherwise.
class rogue {
public:
  rogue(const std::string& address, uint64_t number, const std::string& secret = "open sesame")
      : secret_(secret) {
    const auto target = net::numeric_address(*net::split_address(address));
    REQUIRE(target);
    own_.from = {0xABCD, number};
    own_.epoch = number;
    own_.address = "127.0.0.1:" + std::to_string(number);
    own_.nonce = *net::draw_nonce();
    auto listen = *target;
    listen.set_port(0);
    auto info = net::find_provider("tcp", listen);
    REQUIRE(info);
    info_ = *std::move(info);
    fabric_ = *net::open_fabric(*info_);
    domain_ = *net::open_domain(*fabric_, *info_);
    events_ = *net::open_event_queue(*fabric_);
    completions_ = *net::open_completion_queue(*domain_, 256);
    towards_ = net::info_towards(*info_, *target);
    endpoint_ = *net::open_endpoint(*domain_, *towards_, *events_, *completions_, nullptr);
    for (size_t i = 0; i < buffers_.size(); ++i) {
      buffers_[i].resize(4096);
      REQUIRE(fi_recv(endpoint_.get(), buffers_[i].data(), buffers_[i].size(), nullptr, 0,
                      &contexts_[i]) == 0);
    }
  }

  /// Connects with this hello; the other side's, or nothing when it was refused.
  bool connect(const std::string& hello_bytes) {
    own_bytes_ = hello_bytes;
    REQUIRE(fi_connect(endpoint_.get(), towards_->dest_addr, hello_bytes.data(),
                       hello_bytes.size()) == 0);
    std::array<std::byte, 1024> entry;
    uint32_t event = 0;
    const ssize_t got = fi_eq_sread(events_.get(), &event, entry.data(), entry.size(), 10'000, 0);
    if (got < static_cast<ssize_t>(sizeof(fi_eq_cm_entry)) || event != FI_CONNECTED) return false;
    const auto data =
        std::span{entry}.first(static_cast<size_t>(got)).subspan(sizeof(fi_eq_cm_entry));
    const auto peer = net::read_hello(data, "test", "open sesame");
    REQUIRE(peer);
    peer_ = *peer;
    about_ =
        net::transcript(own_bytes_, {reinterpret_cast<const char*>(data.data()), peer_.wire_bytes});
    return true;
  }
  [[nodiscard]] std::string hello_bytes() const { return net::write_hello(own_, "test", secret_); }
  bool connect() { return connect(hello_bytes()); }

  [[nodiscard]] net::digest256 proof() const {
    return net::link_proof(secret_, net::link_role::dialer, about_);
  }
  void prove() { prove(proof()); }
  void prove(const net::digest256& with) {
    wire::frame_header header;
    header.kind = wire::frame_kind::auth;
    send(header, with);
  }

  /// A frame with the next sequence number, sealed, then changed by `spoil`.
  template <class Spoil>
  void send(wire::frame_header header, std::span<const std::byte> body, Spoil spoil) {
    header.epoch = own_.epoch;
    header.sequence = ++sequence_;
    wire::seal(header, body);
    const auto head = std::as_bytes(std::span{&header, 1});
    std::vector<std::byte> whole(head.begin(), head.end());
    whole.insert(whole.end(), body.begin(), body.end());
    spoil(whole);
    send_bytes(whole);
  }
  void send(const wire::frame_header& header, std::span<const std::byte> body) {
    send(header, body, [](std::vector<std::byte>&) {});
  }
  void send_bytes(std::vector<std::byte> bytes) {
    sent_.push_back(std::move(bytes));
    REQUIRE(fi_send(endpoint_.get(), sent_.back().data(), sent_.back().size(), nullptr, 0,
                    &send_contexts_.at(sent_.size())) == 0);
    fi_cq_data_entry entry;
    (void)fi_cq_read(completions_.get(), &entry, 1);
  }
  /// True when the other side closes the connection within the time.
  bool closed_by_peer() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{10};
    while (std::chrono::steady_clock::now() < end) {
      fi_cq_data_entry completion;
      while (fi_cq_read(completions_.get(), &completion, 1) > 0) {
      }
      fi_cq_err_entry broken{};
      (void)fi_cq_readerr(completions_.get(), &broken, 0);
      std::array<std::byte, 1024> entry;
      uint32_t event = 0;
      const ssize_t got = fi_eq_sread(events_.get(), &event, entry.data(), entry.size(), 10, 0);
      if (got > 0 && event == FI_SHUTDOWN) return true;
      if (got == -FI_EAVAIL) return true;
    }
    return false;
  }

  [[nodiscard]] const net::hello& own() const { return own_; }
  [[nodiscard]] net::hello& own() { return own_; }

private:
  std::string secret_;
  net::hello own_, peer_;
  std::string own_bytes_;
  net::digest256 about_{};
  uint64_t sequence_ = 0;
  net::ofi_info info_, towards_;
  net::ofi_fabric fabric_;
  net::ofi_domain domain_;
  net::ofi_eq events_;
  net::ofi_cq completions_;
  net::ofi_endpoint endpoint_;
  std::array<std::vector<std::byte>, 16> buffers_;
  std::array<fi_context2, 16> contexts_{};
  std::vector<std::vector<std::byte>> sent_;
  std::array<fi_context2, 64> send_contexts_{};
};

/// A plain TCP client.
class raw_client {
public:
  explicit raw_client(const std::string& address) {
    const auto target = net::numeric_address(*net::split_address(address));
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(::connect(fd_, target->get(), target->length) == 0);
  }
  raw_client(raw_client&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~raw_client() {
    if (fd_ >= 0) ::close(fd_);
  }
  void send(std::string_view bytes) const {
    (void)::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

private:
  int fd_ = -1;
};

}  // namespace deepinfer::test
