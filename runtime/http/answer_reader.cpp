// Beast asserts that a last chunk which is not complete yet has five bytes; four may come (its own
// code copes). What a stranger sends must not stop a build with asserts. No other file instantiates
// this parser, so the definition below is everybody's.
#define BOOST_DISABLE_ASSERTS

#include "runtime/http/answer_reader.hpp"

#include "proto/types/check.hpp"

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include <utility>

namespace deepinfer::http {
namespace {

namespace beast = boost::beast;
using boost_error = beast::error_code;
using beast::string_view;

}  // namespace

class answer_reader::parser final : public beast::http::basic_parser<false> {
public:
  parser(uint32_t header_bytes, bool is_head, const http_body_sink& sink) : sink_(sink) {
    header_limit(header_bytes);
    body_limit(boost::none);  // streams have no end to know of; `http_client::call` bounds the rest
    eager(true);
    if (is_head) skip(true);
  }

  http_answer answer_;
  bool is_stopped_ = false;

private:
  void on_request_impl(beast::http::verb, string_view, string_view, int, boost_error&) override {}
  void on_response_impl(int status, string_view, int, boost_error&) override {
    answer_.status = static_cast<uint16_t>(status);
  }
  void on_field_impl(beast::http::field,
                     string_view name,
                     string_view value,
                     boost_error&) override {
    if (header_closed_) return;
    http_header h{{name.data(), name.size()}, {value.data(), value.size()}};
    for (char& c : h.name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    answer_.headers.push_back(std::move(h));
  }
  void on_header_impl(boost_error&) override { header_closed_ = true; }
  void on_body_init_impl(const boost::optional<uint64_t>&, boost_error&) override {}
  size_t on_body_impl(string_view piece, boost_error& error) override {
    if (!sink_(answer_, {piece.data(), piece.size()})) {
      is_stopped_ = true;
      error = boost::system::errc::make_error_code(boost::system::errc::operation_canceled);
    }
    return piece.size();
  }
  void on_chunk_header_impl(uint64_t, string_view, boost_error&) override {}
  size_t on_chunk_body_impl(uint64_t, string_view piece, boost_error& error) override {
    return on_body_impl(piece, error);
  }
  void on_finish_impl(boost_error&) override {}

  const http_body_sink& sink_;
  bool header_closed_ = false;
};

answer_reader::answer_reader(uint32_t header_bytes, bool is_head, const http_body_sink& sink)
    : header_bytes_(header_bytes), is_head_(is_head), sink_(sink) {
  renew();
}
answer_reader::~answer_reader() = default;

void answer_reader::renew() {
  parser_ = std::make_unique<parser>(header_bytes_, is_head_, sink_);
}

result<void> answer_reader::feed(std::string_view bytes) {
  if (!held_.empty()) {
    held_.append(bytes);
    bytes = held_;
  }
  size_t taken = 0;
  while (taken < bytes.size()) {
    if (is_done()) return failure{error_code::corrupt, "the server sent more than one answer"};
    const std::string_view rest = bytes.substr(taken);
    boost_error error;
    const size_t now = parser_->put(boost::asio::const_buffer(rest.data(), rest.size()), error);
    taken += now;
    if (parser_->is_stopped_) return failure{error_code::cancelled, "the caller ended the stream"};
    if (error == beast::http::error::need_more) break;
    if (error == beast::http::error::header_limit)
      return failure{error_code::too_large, "the header of the answer is longer than header_bytes"};
    if (error)
      return failure{error_code::corrupt, "the answer is not valid HTTP: " + error.message()};
    // 100 Continue and its kind come before the answer proper
    const bool is_interim = parser_->is_done() && parser_->answer_.status / 100 == 1;
    if (is_interim) {
      renew();
    } else if (now == 0) {
      break;
    }
  }
  std::string rest{bytes.substr(taken)};
  if (rest.size() > header_bytes_)
    return failure{error_code::too_large,
                   "a header line of the answer is longer than header_bytes"};
  held_ = std::move(rest);
  return {};
}

bool answer_reader::end_of_stream() {
  if (!parser_->got_some() || !parser_->is_header_done()) return false;
  boost_error error;
  parser_->put_eof(error);
  return !error && parser_->is_done();
}

bool answer_reader::is_done() const {
  return parser_->is_header_done() && parser_->is_done();
}
bool answer_reader::keeps_alive() const {
  return parser_->keep_alive();
}

http_answer answer_reader::take() {
  DEEPINFER_CHECK(is_done());
  return std::move(parser_->answer_);
}

}  // namespace deepinfer::http
