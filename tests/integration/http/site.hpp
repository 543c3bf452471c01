#pragma once

#include "runtime/http/server.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace deepinfer::test {

/// Longest wait for something that must happen; far above what it takes, so only a fault hits it.
inline constexpr std::chrono::milliseconds patience{20000};

/// Waits until `condition` holds; false if it never does.
bool eventually(const std::function<bool()>& condition);

/// A server on a free loopback port with a few pages:
///   /hello   "hello"          /echo  the body back
///   /info    "METHOD path?query x-test=<header> body=<n>"
///   /hold    the request stays open until the test answers it (`next_held`)
///   /throw   the handler throws   /drop  the handler drops the responder
class site {
public:
  explicit site(http_config config = {});

  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] http_server& server() { return *server_; }
  /// The responder of the oldest `/hold` request not yet given out; null if none comes.
  [[nodiscard]] std::shared_ptr<http_responder> next_held();

private:
  void serve(std::shared_ptr<const http_request> request,
             std::shared_ptr<http_responder> responder);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<http_responder>> held_;
  std::unique_ptr<http_server> server_;
  uint16_t port_ = 0;
};

/// A plain socket, for what a proper client would never send.
class raw_client {
public:
  explicit raw_client(uint16_t port);
  ~raw_client();
  raw_client(const raw_client&) = delete;
  raw_client& operator=(const raw_client&) = delete;
  raw_client(raw_client&& other) noexcept;

  /// False if the server took no byte for `patience`, or has closed.
  bool send(std::string_view bytes);
  /// Everything up to and with `mark`; what came so far if it never comes.
  std::string read_until(std::string_view mark);
  /// Everything until the server closes. Sets `was_reset` if it did so rudely.
  std::string read_to_end();
  /// One answer with content-length: head and body.
  std::string read_answer();
  void shutdown_write();
  /// Ends without goodbye (RST).
  void reset();
  void small_receive_window();
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }

  bool was_reset = false;

private:
  bool fill();

  int fd_ = -1;
  std::string buffer_;
};

[[nodiscard]] std::string get(std::string_view path, std::string_view more_headers = "");
[[nodiscard]] std::string post(std::string_view path, std::string_view body);

}  // namespace deepinfer::test
