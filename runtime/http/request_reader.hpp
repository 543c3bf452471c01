#pragma once

#include "runtime/http/message.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace deepinfer::http {

struct reader_limits {
  uint64_t header_bytes = 16 << 10;
  uint64_t body_bytes = 32 << 20;
};

/// Turns bytes into one request. Pure: no socket, no clock. Beast's parser does the grammar; this
/// adds what it leaves open: an exact header limit over any number of pieces, no ambiguity about
/// where a body ends (request smuggling), one Host, trailers that cannot pose as headers.
class request_reader {
public:
  explicit request_reader(const reader_limits& limits);
  ~request_reader();
  request_reader(request_reader&&) noexcept;
  request_reader& operator=(request_reader&&) noexcept;

  /// Takes what it can of `bytes` and returns how much that was. The rest must come again in
  /// front of the next bytes; it is shorter than `header_bytes` unless `is_done()`
  /// or there is a `problem()`.
  size_t feed(std::string_view bytes);

  [[nodiscard]] bool is_started() const;  ///< a byte of the request has been taken
  [[nodiscard]] bool is_header_done() const;
  [[nodiscard]] bool is_done() const;
  /// Set when the request cannot be taken: answer this and close.
  [[nodiscard]] const std::optional<http_problem>& problem() const;

  // Of a request whose header is done:
  [[nodiscard]] bool keeps_alive() const;
  [[nodiscard]] bool is_http_10() const;
  [[nodiscard]] bool expects_continue() const;
  [[nodiscard]] uint64_t body_bytes() const;  ///< so far

  /// The path as sent, without the query; empty until the request line is read.
  [[nodiscard]] std::string_view target_path() const;

  /// The finished request (without `remote` and `connection`). Once.
  [[nodiscard]] http_request take();

private:
  class parser;
  std::unique_ptr<parser> parser_;
};

}  // namespace deepinfer::http
