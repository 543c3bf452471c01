// Beast asserts that a last chunk which is not complete yet has five bytes; four may come (its own
// code copes). What a stranger sends must not stop a build with asserts. No other file instantiates
// this parser, so the definition below is everybody's.
#define BOOST_DISABLE_ASSERTS

#include "runtime/http/request_reader.hpp"

#include "proto/types/check.hpp"

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include <algorithm>
#include <utility>

namespace deepinfer::http {
namespace {

namespace beast = boost::beast;
using beast::error_code;
using beast::string_view;

constexpr std::string_view invalid = "invalid_request_error";

constexpr http_problem malformed{400, invalid, "malformed_http",
                                 "The request is not valid HTTP/1.1."};
constexpr http_problem header_too_large{
    431, invalid, "header_too_large",
    "Request line and headers are longer than `http.header_bytes` allows; send fewer or shorter "
    "headers."};
constexpr http_problem body_too_large{
    413, invalid, "body_too_large",
    "The request body is longer than `http.body_bytes` allows; send less in one request."};
constexpr http_problem bad_host{400, invalid, "malformed_http",
                                "An HTTP/1.1 request needs exactly one Host header."};
constexpr http_problem bad_target{400, invalid, "malformed_http",
                                  "The request target is not valid."};
constexpr http_problem unknown_coding{501, invalid, "unsupported_transfer_encoding",
                                      "Of the transfer encodings only chunked is supported."};
constexpr http_problem unknown_expectation{417, invalid, "unsupported_expectation",
                                           "Of the expectations only 100-continue is supported."};

std::string lower_case(string_view text) {
  std::string out(text.data(), text.size());
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

/// Fills path and query; false for a target that is none of the forms of RFC 9112 3.2.
bool split_target(http_request& request) {
  std::string_view rest = request.target;
  if (rest == "*") {
    request.path.assign(1, '*');
    return request.method == "OPTIONS";
  }
  if (rest.empty()) return false;
  if (rest.front() != '/') {  // absolute form: the authority does not concern us
    const size_t scheme = rest.find("://");
    if (scheme == std::string_view::npos) return false;
    rest.remove_prefix(scheme + 3);
    const size_t slash = rest.find_first_of("/?");
    rest = slash == std::string_view::npos ? std::string_view{"/"} : rest.substr(slash);
  }
  const size_t question = rest.find('?');
  auto path = percent_decode(rest.substr(0, question));
  if (!path) return false;
  request.path = path->empty() ? "/" : *std::move(path);
  if (question != std::string_view::npos) request.query = rest.substr(question + 1);
  return true;
}

}  // namespace

/// Puts what Beast finds straight into the request: no second header container.
class request_reader::parser final : public beast::http::basic_parser<true> {
public:
  explicit parser(const reader_limits& l) : limits_(l) {
    // ours is exact, see `feed`; Beast's would start anew with every piece
    header_limit(static_cast<uint32_t>(l.header_bytes + 1));
    body_limit(l.body_bytes);
    eager(false);
  }

  size_t feed(std::string_view bytes);
  void fail(const http_problem& problem) {
    if (!problem_) problem_ = problem;
  }

  http_request request_;
  std::optional<http_problem> problem_;
  uint64_t header_taken_ = 0;
  bool expects_continue_ = false;
  bool is_http_10_ = false;

private:
  size_t feed_header(std::string_view bytes);
  size_t feed_body(std::string_view bytes);
  void translate(const error_code& error);
  void check_header();

  void on_request_impl(beast::http::verb,
                       string_view method,
                       string_view target,
                       int version,
                       error_code&) override {
    is_http_10_ = version == 10;
    request_.method.assign(method.data(), method.size());
    request_.target.assign(target.data(), target.size());
  }
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_field_impl(beast::http::field,
                     string_view name,
                     string_view value,
                     error_code&) override {
    if (header_closed_) return;  // a trailer: nobody asked for it
    request_.headers.push_back({lower_case(name), {value.data(), value.size()}});
  }
  void on_header_impl(error_code&) override { header_closed_ = true; }
  void on_body_init_impl(const boost::optional<uint64_t>& length, error_code&) override {
    // what is only announced is not believed beyond this
    constexpr uint64_t believed = 64 << 10;
    if (length) request_.body.reserve(std::min<uint64_t>(*length, believed));
  }
  size_t on_body_impl(string_view piece, error_code&) override {
    request_.body.append(piece.data(), piece.size());
    return piece.size();
  }
  void on_chunk_header_impl(uint64_t, string_view, error_code&) override {}
  size_t on_chunk_body_impl(uint64_t, string_view piece, error_code& ec) override {
    return on_body_impl(piece, ec);
  }
  void on_finish_impl(error_code&) override {}

  const reader_limits limits_;
  bool header_closed_ = false;
};

size_t request_reader::parser::feed(std::string_view bytes) {
  size_t taken = 0;
  // each round takes something or ends the loop
  while (!problem_ && !is_done()) {
    const std::string_view rest = bytes.substr(taken);
    if (rest.empty()) break;
    const size_t now = is_header_done() ? feed_body(rest) : feed_header(rest);
    taken += now;
    if (now == 0) break;
  }
  return taken;
}

size_t request_reader::parser::feed_header(std::string_view bytes) {
  const uint64_t allowed = limits_.header_bytes - header_taken_;
  // a blank line before the request line is a known fault of old clients (RFC 9112 2.2)
  if (!got_some() && bytes.front() == '\r' && allowed >= 2) {
    if (bytes.size() == 1) return 0;
    if (bytes[1] == '\n') {
      header_taken_ += 2;
      return 2;
    }
  }
  const std::string_view window = bytes.substr(0, allowed);
  error_code error;
  const size_t taken = put(boost::asio::const_buffer(window.data(), window.size()), error);
  header_taken_ += taken;
  if (error == beast::http::error::need_more) {
    // all of the rest of the allowance is here and still no end
    if (bytes.size() - taken >= limits_.header_bytes - header_taken_) fail(header_too_large);
    return taken;
  }
  if (error) {
    translate(error);
    return taken;
  }
  if (is_header_done()) check_header();
  return taken;
}

size_t request_reader::parser::feed_body(std::string_view bytes) {
  eager(true);
  error_code error;
  const size_t taken = put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  if (error == beast::http::error::need_more) {
    // the line of a chunk, or the trailers: small, or an attack
    if (bytes.size() - taken >= limits_.header_bytes) fail(header_too_large);
  } else if (error) {
    translate(error);
  }
  return taken;
}

void request_reader::parser::translate(const error_code& error) {
  if (error == beast::http::error::header_limit) return fail(header_too_large);
  if (error == beast::http::error::body_limit) return fail(body_too_large);
  fail(malformed);
}

void request_reader::parser::check_header() {
  size_t hosts = 0;
  size_t codings = 0;
  for (const http_header& h : request_.headers) {
    if (h.name == "host") ++hosts;
    if (h.name == "transfer-encoding") {
      // Also in front of chunked: the body would be what we cannot read.
      if (codings++ > 0 || lower_case(h.value) != "chunked") return fail(unknown_coding);
    }
    if (h.name == "expect") {
      if (lower_case(h.value) != "100-continue") return fail(unknown_expectation);
      expects_continue_ = !is_http_10_;
    }
  }
  if (hosts > 1 || (hosts == 0 && !is_http_10_)) return fail(bad_host);
  // A coding we do not know would hide where the body ends, and with it the next request; under
  // HTTP/1.0 no proxy in front would have understood it (RFC 9112 6.1).
  if (codings > 0 && is_http_10_) return fail(malformed);
  if (!split_target(request_)) fail(bad_target);
}

request_reader::request_reader(const reader_limits& limits)
    : parser_(std::make_unique<parser>(limits)) {}
request_reader::~request_reader() = default;
request_reader::request_reader(request_reader&&) noexcept = default;
request_reader& request_reader::operator=(request_reader&&) noexcept = default;

size_t request_reader::feed(std::string_view bytes) {
  return parser_->feed(bytes);
}
bool request_reader::is_started() const {
  return parser_->header_taken_ > 0;
}
bool request_reader::is_header_done() const {
  return parser_->is_header_done() && !parser_->problem_;
}
bool request_reader::is_done() const {
  return parser_->is_header_done() && parser_->is_done() && !parser_->problem_;
}
const std::optional<http_problem>& request_reader::problem() const {
  return parser_->problem_;
}
bool request_reader::keeps_alive() const {
  return parser_->keep_alive();
}
bool request_reader::is_http_10() const {
  return parser_->is_http_10_;
}
bool request_reader::expects_continue() const {
  return parser_->expects_continue_;
}
uint64_t request_reader::body_bytes() const {
  return parser_->request_.body.size();
}

std::string_view request_reader::target_path() const {
  const std::string_view target = parser_->request_.target;
  return target.substr(0, target.find('?'));
}

http_request request_reader::take() {
  DEEPINFER_CHECK(is_done());
  return std::move(parser_->request_);
}

}  // namespace deepinfer::http
