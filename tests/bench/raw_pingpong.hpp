#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace deepinfer::bench {

/// The least that libfabric needs for a ping-pong of 64 bytes: one connection, one thread, waiting
/// (not spinning) for completions. What any transport on it is compared with.
class raw_pingpong {
public:
  static constexpr size_t message_bytes = 64;

  /// Listens on a free port of the loopback device.
  static raw_pingpong listen() {
    raw_pingpong end;
    end.open(end.find("127.0.0.1", "0", FI_SOURCE));
    must(fi_passive_ep(end.fabric_, end.info_, &end.passive_, nullptr), "fi_passive_ep");
    must(fi_pep_bind(end.passive_, &end.events_->fid, 0), "fi_pep_bind");
    must(fi_listen(end.passive_), "fi_listen");
    return end;
  }
  [[nodiscard]] std::string port() const {
    std::array<unsigned char, 64> address{};
    size_t length = address.size();
    must(fi_getname(&passive_->fid, address.data(), &length), "fi_getname");
    return std::to_string(address[2] * 256 + address[3]);  // sockaddr_in, network order
  }
  void accept() {
    fi_info* request = wait_event(FI_CONNREQ);
    open_endpoint(request);
    must(fi_accept(endpoint_, nullptr, 0), "fi_accept");
    wait_event(FI_CONNECTED);
  }

  static raw_pingpong connect(const std::string& port) {
    raw_pingpong end;
    end.open(end.find("127.0.0.1", port.c_str(), 0));
    end.open_endpoint(end.info_);
    must(fi_connect(end.endpoint_, end.info_->dest_addr, nullptr, 0), "fi_connect");
    end.wait_event(FI_CONNECTED);
    return end;
  }

  void send() {
    ssize_t posted = -FI_EAGAIN;
    while (posted == -FI_EAGAIN) posted = fi_inject(endpoint_, out_.data(), message_bytes, 0);
    must(static_cast<int>(posted), "fi_inject");
  }
  /// False when the other end is gone.
  bool receive() {
    fi_cq_entry entry{};
    ssize_t got = -FI_EAGAIN;
    while (got == -FI_EAGAIN) got = fi_cq_sread(completions_, &entry, 1, nullptr, -1);
    if (got != 1) return false;
    post_receive();
    return true;
  }

private:
  static void must(int code, const char* what) {
    if (code == 0) return;
    std::fprintf(stderr, "%s: %s\n", what, fi_strerror(-code));
    std::exit(1);
  }
  fi_info* find(const char* host, const char* port, uint64_t flags) {
    fi_info* hints = fi_allocinfo();
    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_MSG;
    hints->fabric_attr->prov_name = strdup("tcp");
    hints->addr_format = FI_SOCKADDR_IN;
    must(fi_getinfo(FI_VERSION(1, 17), host, port, flags, hints, &info_), "fi_getinfo");
    fi_freeinfo(hints);
    return info_;
  }
  void open(fi_info* info) {
    must(fi_fabric(info->fabric_attr, &fabric_, nullptr), "fi_fabric");
    must(fi_domain(fabric_, info, &domain_, nullptr), "fi_domain");
    fi_eq_attr eq{};
    eq.wait_obj = FI_WAIT_UNSPEC;
    must(fi_eq_open(fabric_, &eq, &events_, nullptr), "fi_eq_open");
    fi_cq_attr cq{};
    cq.format = FI_CQ_FORMAT_CONTEXT;
    cq.wait_obj = FI_WAIT_FD;
    must(fi_cq_open(domain_, &cq, &completions_, nullptr), "fi_cq_open");
  }
  void open_endpoint(fi_info* info) {
    must(fi_endpoint(domain_, info, &endpoint_, nullptr), "fi_endpoint");
    must(fi_ep_bind(endpoint_, &events_->fid, 0), "fi_ep_bind");
    must(fi_ep_bind(endpoint_, &completions_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    must(fi_enable(endpoint_), "fi_enable");
    post_receive();
  }
  void post_receive() {
    must(static_cast<int>(fi_recv(endpoint_, in_.data(), in_.size(), nullptr, 0, nullptr)),
         "fi_recv");
  }
  fi_info* wait_event(uint32_t wanted) {
    uint32_t event = 0;
    fi_eq_cm_entry entry{};
    const ssize_t got = fi_eq_sread(events_, &event, &entry, sizeof entry, 10'000, 0);
    if (got < 0 || event != wanted) must(-FI_EOTHER, "fi_eq_sread");
    return entry.info;
  }

  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_eq* events_ = nullptr;
  fid_cq* completions_ = nullptr;
  fid_pep* passive_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  std::array<std::byte, message_bytes> out_{};
  std::array<std::byte, message_bytes> in_{};
};

}  // namespace deepinfer::bench
