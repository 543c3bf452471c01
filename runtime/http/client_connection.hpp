#pragma once

#include "runtime/http/client.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::http {

/// The socket of an `http_client`: non-blocking, every wait by poll(2) with a deadline.
class client_connection {
public:
  using clock = std::chrono::steady_clock;

  client_connection(std::string host, uint16_t port, const http_client_config& config);

  /// Sends `text`, a complete request, and reads one answer. Connects first if need be; closes
  /// afterwards if the answer says so, or on any failure.
  [[nodiscard]] result<http_answer> exchange(std::string_view text,
                                             bool is_head,
                                             clock::time_point deadline,
                                             const http_body_sink& sink);
  void disconnect();
  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  /// A byte of the answer to the last request has come.
  [[nodiscard]] bool has_received() const { return has_received_; }
  [[nodiscard]] const http_client_config& config() const { return config_; }
  [[nodiscard]] std::string host_header() const;

private:
  enum class direction : uint8_t { in, out };

  result<void> connect(clock::time_point deadline);
  result<void> connect_to(const boost::asio::ip::tcp::endpoint& at, clock::time_point deadline);
  result<void> send(std::string_view text, clock::time_point deadline);
  result<http_answer> receive(bool is_head, clock::time_point deadline, const http_body_sink& sink);
  /// 0: the server has closed its side.
  result<size_t> read_some(clock::time_point deadline);
  result<void> wait(direction what, clock::time_point deadline);
  [[nodiscard]] failure broken(std::string_view what) const;

  const std::string host_;
  const uint16_t port_;
  const http_client_config config_;
  boost::asio::io_context io_{1};
  boost::asio::ip::tcp::socket socket_{io_};
  std::vector<char> buffer_ = std::vector<char>(64 << 10);
  bool has_received_ = false;
};

}  // namespace deepinfer::http
