#include "runtime/http/answer_reader.hpp"
#include "runtime/http/client.hpp"
#include "runtime/http/http_config.hpp"
#include "runtime/http/request_reader.hpp"
#include "runtime/http/response_text.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace deepinfer::http;

namespace {

/// Feeds `text` in pieces of random size, keeping what is not taken, as a connection does.
struct fed_reader {
  request_reader reader;
  std::string held;
  size_t longest_held = 0;

  fed_reader(std::string_view text, uint64_t seed, const reader_limits& limits = {})
      : reader(limits) {
    test::rng random{seed};
    while (!text.empty() && !reader.is_done() && !reader.problem()) {
      const size_t size = seed == 0 ? 1 : 1 + random.below(40);
      held += text.substr(0, size);
      text.remove_prefix(std::min(size, text.size()));
      held.erase(0, reader.feed(held));
      if (!reader.is_done() && !reader.problem())
        longest_held = std::max(longest_held, held.size());
    }
    held += text;
  }
  uint16_t status() const { return reader.problem() ? reader.problem()->status : 0; }
};

const std::string chunked =
    "POST /a?b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    "3\r\nabc\r\n00a;x=\"y\"\r\n0123456789\r\n0\r\nTrail: er\r\n\r\n";

}  // namespace

TEST_SUITE_BEGIN("runtime/http");

TEST_CASE("where a request is cut makes no difference") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    fed_reader got{chunked + "GET /next", seed};
    REQUIRE(got.reader.is_done());
    CHECK(got.held == "GET /next");
    const http_request request = got.reader.take();
    CHECK(request.method == "POST");
    CHECK(request.path == "/a");
    CHECK(request.query == "b");
    CHECK(request.body == "abc0123456789");
    CHECK(request.headers.size() == 2);
    CHECK(request.header("trail").empty());
  }
}

TEST_CASE("an empty chunked body is complete at its last byte") {
  const std::string text =
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  fed_reader got{text, 0};
  CHECK(got.reader.is_done());
  CHECK(got.held.empty());
  CHECK_FALSE(fed_reader{text.substr(0, text.size() - 1), 0}.reader.is_done());
}

TEST_CASE("the header limit is exact however the header is cut") {
  const std::string head = "GET / HTTP/1.1\r\nHost: x\r\nA: 1\r\nB: 22\r\nC: 333\r\n\r\n";
  for (uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    CHECK(fed_reader{head, seed, {.header_bytes = head.size()}}.reader.is_done());
    CHECK(fed_reader{head, seed, {.header_bytes = head.size() - 1}}.status() == 431);
  }
}

TEST_CASE("a blank line before a request is forgiven, and counts") {
  const std::string head = "\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n";
  CHECK(fed_reader{head, 0, {.header_bytes = head.size()}}.reader.is_done());
  CHECK(fed_reader{head, 0, {.header_bytes = head.size() - 1}}.status() == 431);
  std::string blank;
  for (int i = 0; i < 1000; ++i) blank += "\r\n";
  CHECK(fed_reader{blank, 3, {.header_bytes = 100}}.status() == 431);
  CHECK(fed_reader{"\rGET / HTTP/1.1\r\n", 0}.status() == 400);
}

TEST_CASE("the body limit is exact") {
  const std::string body = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n0123456789abc";
  CHECK(fed_reader{body, 1, {.body_bytes = 13}}.reader.is_done());
  CHECK(fed_reader{body, 1, {.body_bytes = 12}}.status() == 413);
  CHECK(fed_reader{chunked, 1, {.body_bytes = 13}}.reader.is_done());
  CHECK(fed_reader{chunked, 1, {.body_bytes = 12}}.status() == 413);
  const std::string huge =
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n";
  CHECK(fed_reader{huge, 1}.status() == 400);
  const std::string huge_chunk =
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n";
  CHECK(fed_reader{huge_chunk, 1}.status() == 400);
  CHECK(
      fed_reader{
          "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", 1}
          .status() == 413);
}

TEST_CASE("a transfer encoding other than chunked alone is refused, wherever it stands") {
  const auto status_of = [](const std::string& fields) {
    return fed_reader{"POST / HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n1\r\na\r\n0\r\n\r\n", 1}
        .status();
  };
  for (const std::string alone : {"chunked", "Chunked", " chunked "})
    CHECK(status_of("Transfer-Encoding:" + alone + "\r\n") == 0);
  for (const std::string coding : {"gzip, chunked", "gzip,chunked", "x, chunked", "identity",
                                   "gzip", "chunked, gzip", "chunked;a=b", "identity, chunked"})
    CHECK_MESSAGE(status_of("Transfer-Encoding: " + coding + "\r\n") == 501, coding);
  for (const std::string other : {"gzip", "chunked", "identity"})
    CHECK(status_of("Transfer-Encoding: " + other + "\r\nTransfer-Encoding: chunked\r\n") >= 400);
}

TEST_CASE("random bytes never make the reader hold more than its limits") {
  const std::string_view pieces[] = {"GET ",
                                     "POST ",
                                     "/a ",
                                     "HTTP/1.1\r\n",
                                     "\r\n",
                                     "Host: x\r\n",
                                     "Transfer-Encoding: chunked\r\n",
                                     "Content-Length: 5\r\n",
                                     "5\r\n",
                                     "hello",
                                     "0\r\n",
                                     "\r",
                                     "\n",
                                     ":",
                                     "%41",
                                     "Expect: 100-continue\r\n"};
  const reader_limits limits{.header_bytes = 200, .body_bytes = 50};
  size_t done = 0;
  size_t refused = 0;
  for (uint64_t seed = 1; seed < 20000; ++seed) {
    CAPTURE(seed);
    test::rng random{seed};
    std::string text = random.below(2) == 0 ? "" : "POST /a HTTP/1.1\r\nHost: x\r\n";
    for (uint32_t i = 0; i < random.below(40); ++i) text += pieces[random.below(std::size(pieces))];
    fed_reader got{text, seed, limits};
    done += got.reader.is_done() ? 1 : 0;
    refused += got.reader.problem() ? 1 : 0;
    REQUIRE(got.longest_held <= limits.header_bytes);
    REQUIRE(got.reader.body_bytes() <= limits.body_bytes);
  }
  CHECK(done > 100);  // the pieces do make requests
  CHECK(refused > 1000);
}

TEST_CASE("a head that would break out of its line is not written") {
  CHECK(*write_head({.content_type = "a/b", .content_length = 3}, {{"x-y", "z"}}) ==
        "HTTP/1.1 200 OK\r\ncontent-type: a/b\r\ncontent-length: 3\r\nx-y: z\r\n\r\n");
  CHECK(*write_head({.status = 204}, {}) == "HTTP/1.1 204 No Content\r\n\r\n");
  CHECK(*write_head({.status = 299, .framing = body_framing::chunked, .closes = true}, {}) ==
        "HTTP/1.1 299 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n");
  for (const char* value : {"a\rb", "a\nb", "a\x7f"}) {
    CHECK_FALSE(write_head({}, {{"x", value}}));
    CHECK_FALSE(write_head({.content_type = value}, {}));
  }
  CHECK_FALSE(write_head({}, {{"", "v"}}));
  CHECK_FALSE(write_head({}, {{"a:b", "v"}}));
  CHECK_FALSE(write_head({.status = 199}, {}));
  CHECK_FALSE(write_head({.status = 600}, {}));
  CHECK(chunk_size_line(0x1f4) == "1f4\r\n");
  CHECK(chunk_size_line(UINT64_MAX) == "ffffffffffffffff\r\n");
}

TEST_CASE("a problem is JSON whatever its message") {
  CHECK(problem_json({400, "t", "c", "a \"b\"\n"}) ==
        R"({"error":{"message":"a \"b\"\u000a","type":"t","param":null,"code":"c"}})");
}

TEST_CASE("the defaults of the HTTP settings are within their ranges") {
  http_config written;
  http_config read;
  config_schema from;
  config_schema to;
  from.section("http", "HTTP.", written);
  to.section("http", "HTTP.", read);
  CHECK(to.read_toml(from.effective(), "defaults"));
}

TEST_CASE("an expectation other than 100-continue is refused") {
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nExpect: ";
  CHECK(fed_reader{head + "tea\r\n\r\n", 1}.status() == 417);
  const fed_reader good{head + "100-Continue\r\n\r\n", 1};
  CHECK(good.status() == 0);
  CHECK(good.reader.expects_continue());
}

TEST_CASE("query values are found and decoded") {
  http_request request;
  request.query = "a=1&b=x%20y&c&d=%zz&a=2";
  CHECK(request.query_value("a") == "1");
  CHECK(request.query_value("b") == "x y");
  CHECK(request.query_value("c") == "");
  CHECK(request.query_value("d") == std::nullopt);
  CHECK(request.query_value("e") == std::nullopt);
  CHECK(percent_decode("%41%") == std::nullopt);
  CHECK(percent_decode("%4") == std::nullopt);
}

TEST_CASE("URLs are read, and what is none is refused") {
  const auto full = parse_url("http://host:81/p?q");
  REQUIRE(full);
  CHECK(full->host == "host");
  CHECK(full->port == 81);
  CHECK(full->path == "/p?q");
  CHECK(parse_url("localhost:8000")->port == 8000);
  CHECK(parse_url("localhost")->port == 80);
  CHECK(parse_url("http://[::1]:8000")->host == "::1");
  CHECK(parse_url("[::1]")->host == "::1");
  CHECK(parse_url("https://x").error().code == error_code::unsupported);
  for (const char* bad :
       {"", "http://", ":80", "h:0", "h:99999", "h:x", "h :1", "a b", "h\r\n:1"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_url(bad));
  }
}

TEST_CASE("an answer reads the same however it is cut, interim answers before it dropped") {
  const std::string text =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    test::rng random{seed};
    std::string body;
    const http_body_sink sink = [&body](const http_answer& head, std::string_view piece) {
      CHECK(head.status == 200);
      body += piece;
      return true;
    };
    answer_reader reader{4096, false, sink};
    for (size_t at = 0; at < text.size();) {
      const size_t size = seed == 0 ? 1 : 1 + random.below(30);
      REQUIRE(reader.feed(std::string_view{text}.substr(at, size)));
      at += size;
    }
    REQUIRE(reader.is_done());
    CHECK(reader.keeps_alive());
    CHECK(body == "abcde");
    CHECK(reader.take().header("a") == "b");
  }
}

TEST_CASE("an answer without length ends with the connection, one with length does not") {
  const http_body_sink sink = [](const http_answer&, std::string_view) { return true; };
  answer_reader open{4096, false, sink};
  REQUIRE(open.feed("HTTP/1.0 200 OK\r\n\r\nabc"));
  CHECK_FALSE(open.is_done());
  CHECK(open.end_of_stream());
  answer_reader cut{4096, false, sink};
  REQUIRE(cut.feed("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc"));
  CHECK_FALSE(cut.end_of_stream());
  answer_reader none{4096, false, sink};
  CHECK_FALSE(none.end_of_stream());
}

TEST_CASE("bytes that are no answer, too many headers and a second answer are refused") {
  const http_body_sink sink = [](const http_answer&, std::string_view) { return true; };
  answer_reader garbage{4096, false, sink};
  CHECK(garbage.feed("SSH-2.0-x\r\n\r\n").error().code == error_code::corrupt);
  answer_reader large{100, false, sink};
  CHECK(large.feed("HTTP/1.1 200 OK\r\nA: " + std::string(100, 'x')).error().code ==
        error_code::too_large);
  answer_reader two{4096, false, sink};
  CHECK(two.feed("HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\n").error().code ==
        error_code::corrupt);
}

TEST_SUITE_END();
