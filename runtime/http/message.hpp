#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace deepinfer {

struct http_header {
  std::string name;  ///< lower case in what we receive
  std::string value;
};
using http_headers = std::vector<http_header>;

/// The first header of that (lower-case) name; empty if there is none.
[[nodiscard]] std::string_view find_header(const http_headers& headers, std::string_view name);

/// One complete request, checked and bounded. Nobody changes it once the handler has it.
struct http_request {
  std::string method;  ///< as sent: methods are case-sensitive
  std::string target;  ///< as sent
  std::string path;    ///< percent-decoded; "*" for OPTIONS *
  std::string query;   ///< after '?', not decoded
  http_headers headers;
  std::string body;
  std::string remote;  ///< "address:port" of the client
  uint64_t connection = 0;

  [[nodiscard]] std::string_view header(std::string_view lower_case_name) const {
    return find_header(headers, lower_case_name);
  }
  /// The decoded value of a query parameter.
  [[nodiscard]] std::optional<std::string> query_value(std::string_view name) const;
};

/// Reads %XX (and nothing else); nothing for a broken escape or an escaped NUL.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text);

/// The OpenAI error shape, which all our listeners answer with.
struct http_problem {
  uint16_t status = 500;
  std::string_view type;     ///< "invalid_request_error", "server_error", "overloaded_error"
  std::string_view code;     ///< stable word for programs
  std::string_view message;  ///< for people: what to do
};
[[nodiscard]] std::string problem_json(const http_problem& problem);

/// What a client gets that is refused: a JSON body, and headers beside the usual ones.
struct http_refusal {
  std::string body;
  http_headers headers;
};

[[nodiscard]] std::string_view reason_phrase(uint16_t status);

}  // namespace deepinfer
