#include "runtime/http/client.hpp"

#include "runtime/http/client_connection.hpp"

#include <charconv>
#include <utility>

namespace deepinfer {
namespace {

std::string write_call(const http_call& request, const std::string& host) {
  std::string out;
  out.reserve(256 + request.body.size());
  out.append(request.method).append(" ").append(request.path).append(" HTTP/1.1\r\nhost: ");
  out.append(host).append("\r\n");
  for (const http_header& h : request.headers)
    out.append(h.name).append(": ").append(h.value).append("\r\n");
  if (!request.body.empty() || (request.method != "GET" && request.method != "HEAD"))
    out.append("content-length: ").append(std::to_string(request.body.size())).append("\r\n");
  return out.append("\r\n").append(request.body);
}

bool is_safe_text(std::string_view text) {
  return text.find_first_of(std::string_view{"\r\n\0", 3}) == std::string_view::npos;
}

result<void> check_call(const http_call& request) {
  bool is_safe = is_safe_text(request.method) && is_safe_text(request.path) &&
                 request.path.find(' ') == std::string::npos && request.path.starts_with('/');
  for (const http_header& h : request.headers)
    is_safe = is_safe && is_safe_text(h.name) && is_safe_text(h.value);
  if (is_safe) return {};
  return failure{error_code::invalid_argument,
                 "method, path or a header of the request is not valid"};
}

}  // namespace

result<http_url> parse_url(std::string_view text) {
  const failure bad{error_code::invalid_argument,
                    std::string("no URL: ").append(text).append("; write http://host:port")};
  constexpr std::string_view plain = "http://";
  if (text.starts_with("https://"))
    return failure{error_code::unsupported,
                   "https is not spoken here; use http:// or a local proxy"};
  if (text.starts_with(plain)) text.remove_prefix(plain.size());
  http_url url;
  const size_t slash = text.find('/');
  if (slash != std::string_view::npos) url.path = text.substr(slash);
  std::string_view authority = text.substr(0, slash);
  const size_t colon = authority.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && authority.find(']', colon) == authority.npos;
  if (has_port) {
    const std::string_view port = authority.substr(colon + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
    if (error != std::errc{} || end != port.data() + port.size() || url.port == 0) return bad;
    authority = authority.substr(0, colon);
  }
  if (authority.starts_with('[') && authority.ends_with(']'))
    authority = authority.substr(1, authority.size() - 2);
  if (authority.empty() || !is_safe_text(text) || authority.find(' ') != authority.npos) return bad;
  url.host = authority;
  return url;
}

struct http_client::connection : http::client_connection {
  using http::client_connection::client_connection;
};

http_client::http_client(std::string host, uint16_t port, const http_client_config& config)
    : connection_(std::make_unique<connection>(std::move(host), port, config)) {}
http_client::~http_client() = default;
http_client::http_client(http_client&&) noexcept = default;
http_client& http_client::operator=(http_client&&) noexcept = default;

void http_client::disconnect() {
  connection_->disconnect();
}

result<http_answer> http_client::call(const http_call& request) {
  std::string body;
  bool is_over = false;
  const uint64_t limit = connection_->config().body_bytes;
  auto answer = stream(request, [&](const http_answer&, std::string_view piece) {
    is_over = body.size() + piece.size() > limit;
    if (!is_over) body.append(piece);
    return !is_over;
  });
  if (is_over)
    return failure{error_code::too_large, "the answer is longer than the client's body_bytes"};
  if (answer) answer->body = std::move(body);
  return answer;
}

result<http_answer> http_client::stream(const http_call& request, const http_body_sink& sink) {
  if (auto checked = check_call(request); !checked) return checked.error();
  const auto deadline = http::client_connection::clock::now() + connection_->config().total_timeout;
  const std::string text = write_call(request, connection_->host_header());
  const bool is_head = request.method == "HEAD";
  const bool was_open = connection_->is_open();
  auto answer = connection_->exchange(text, is_head, deadline, sink);
  // A kept connection may have been closed by the server just now; nothing of an answer came, so
  // a request without effects is repeated once on a new one (RFC 9110 9.2.2).
  const bool may_repeat = was_open && !connection_->has_received() &&
                          (request.method == "GET" || request.method == "HEAD");
  if (!answer && answer.error().code == error_code::unreachable && may_repeat)
    answer = connection_->exchange(text, is_head, deadline, sink);
  return answer;
}

}  // namespace deepinfer
