#pragma once

#include "runtime/net/fabric/inbox.hpp"
#include "runtime/net/fabric/ofi.hpp"
#include "runtime/net/fabric/socket_address.hpp"

#include <atomic>
#include <functional>
#include <span>
#include <thread>
#include <vector>

namespace deepinfer::net {

/// A connection request that nobody has answered; rejected when dropped.
class connection_request {
public:
  connection_request(fid_pep& listener,
                     fi_info* info,
                     std::vector<std::byte> data,
                     std::atomic<uint32_t>& open)
      : listener_(&listener), info_(info), data_(std::move(data)), open_(&open) {
    open_->fetch_add(1);
  }
  connection_request(const connection_request&) = delete;
  connection_request& operator=(const connection_request&) = delete;
  ~connection_request() {
    reject({});
    open_->fetch_sub(1);
  }

  [[nodiscard]] std::span<const std::byte> data() const { return data_; }
  [[nodiscard]] fi_info& info() { return *info_; }
  void reject(const std::string& why) {
    if (info_) (void)fi_reject(listener_, info_->handle, why.data(), why.size());
    info_.reset();
  }
  /// After `fi_accept`: the endpoint has taken the connection over.
  void accepted() { info_.reset(); }

private:
  fid_pep* listener_;
  ofi_info info_;
  std::vector<std::byte> data_;
  std::atomic<uint32_t>* open_;
};

/// Listens, on a thread and event queue of its own: libfabric's tcp provider reads the first
/// bytes of a new connection with a blocking `recv`, so a stranger that sends half a request
/// would stop every link that shared the queue.
class acceptor {
public:
  using request_handler = std::function<void(std::shared_ptr<connection_request>)>;

  /// Binds and listens; `no_capacity` if the port (or all of the `tries` next ones) is taken.
  static result<std::unique_ptr<acceptor>> open(fid_fabric& fabric,
                                                const fi_info& info,
                                                socket_address where,
                                                uint32_t tries);
  ~acceptor() { stop(); }

  [[nodiscard]] const socket_address& where() const { return where_; }
  /// `handler` is called on the acceptor's thread, while fewer than `max_open` requests that it
  /// kept are unanswered.
  void start(request_handler handler, uint32_t max_open);
  void stop();

private:
  acceptor() = default;
  void run();
  void handle_event(uint32_t event, std::span<const std::byte> entry);

  fid_fabric* fabric_ = nullptr;
  ofi_eq events_;
  ofi_passive listener_;
  socket_address where_;
  request_handler handler_;
  uint32_t max_open_ = 0;
  std::atomic<uint32_t> open_{0};
  std::atomic<bool> stopping_{false};
  waker waker_;
  std::thread thread_;
};

/// Runs `body` on a thread that takes no signals.
[[nodiscard]] std::thread start_thread(const char* name, std::function<void()> body);

}  // namespace deepinfer::net
