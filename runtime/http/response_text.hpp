#pragma once

#include "proto/types/result.hpp"
#include "runtime/http/message.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace deepinfer::http {

/// How the end of a body is marked.
enum class body_framing : uint8_t { length, chunked, until_close };

struct response_head {
  uint16_t status = 200;
  std::string_view content_type;  ///< empty: none
  body_framing framing = body_framing::length;
  uint64_t content_length = 0;
  bool closes = false;  ///< the connection ends after this answer
  bool is_http_10 = false;
};

/// Status line and headers with the blank line. `invalid_argument` for a status outside 200..599
/// and for a header that would break out of its line.
[[nodiscard]] result<std::string> write_head(const response_head& head, const http_headers& extra);

/// True for answers that never have a body (RFC 9110 6.4.1).
[[nodiscard]] bool is_bodiless(uint16_t status);

/// A complete answer that closes the connection.
[[nodiscard]] std::string refusal_answer(uint16_t status, const http_refusal& refusal);

/// "1f4\r\n"
[[nodiscard]] std::string chunk_size_line(uint64_t bytes);

}  // namespace deepinfer::http
