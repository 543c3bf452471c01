#pragma once

#include "proto/types/result.hpp"
#include "runtime/http/message.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

/// A small synchronous HTTP/1.1 client for the command line and tests: one connection, kept alive,
/// each wait with a deadline. It waits on real sockets, so it reads the steady clock itself.
namespace deepinfer {

struct http_url {
  std::string host;
  uint16_t port = 80;
  std::string path = "/";  ///< with query
};

/// "http://host:port/path", also without the scheme; `unsupported` for https (put a proxy in
/// front).
[[nodiscard]] result<http_url> parse_url(std::string_view text);

struct http_client_config {
  std::chrono::milliseconds connect_timeout{5000};
  std::chrono::milliseconds total_timeout{600000};  ///< one request, to the last byte
  std::chrono::milliseconds quiet_timeout{60000};   ///< without a byte from the server
  uint32_t header_bytes = 64 << 10;
  uint64_t body_bytes = uint64_t{64} << 20;  ///< of an answer that is collected; streams have none
};

struct http_call {
  std::string method = "GET";
  std::string path = "/";
  http_headers headers;  ///< host, length and connection are added
  std::string body;
};

struct http_answer {
  uint16_t status = 0;
  http_headers headers;
  std::string body;  ///< empty if it was streamed

  [[nodiscard]] std::string_view header(std::string_view lower_case_name) const {
    return find_header(headers, lower_case_name);
  }
};

/// Gets the pieces of a streamed body as they come; false ends the call (and the connection).
using http_body_sink = std::function<bool(const http_answer& head, std::string_view piece)>;

/// Not for several threads at once. A name is resolved by the system, with the system's timeouts.
class http_client {
public:
  http_client(std::string host, uint16_t port, const http_client_config& config = {});
  ~http_client();
  http_client(http_client&&) noexcept;
  http_client& operator=(http_client&&) noexcept;

  /// The whole answer, whatever its status. `unreachable`: no connection, or it broke;
  /// `deadline_exceeded`; `corrupt`: not HTTP; `too_large`: over a bound of the config.
  [[nodiscard]] result<http_answer> call(const http_call& request);

  /// The same with the body to `sink`. `cancelled` if the sink ended it. A stream that breaks off
  /// before its proper end is `unreachable`, however much came before.
  [[nodiscard]] result<http_answer> stream(const http_call& request, const http_body_sink& sink);

  /// Closes the connection; the next call makes a new one.
  void disconnect();

private:
  struct connection;
  std::unique_ptr<connection> connection_;
};

}  // namespace deepinfer
