#include "tests/integration/http/site.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;
using namespace std::string_view_literals;

namespace {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// An error of the server itself: its status, the OpenAI shape, and the end of the connection.
void check_refused(raw_client& client, std::string_view status, std::string_view code) {
  const std::string answer = client.read_to_end();
  CAPTURE(answer);
  CHECK(answer.starts_with("HTTP/1.1 " + std::string(status) + " "));
  CHECK(has(answer, "content-type: application/json\r\n"));
  CHECK(has(answer, "connection: close\r\n"));
  CHECK(has(answer, "{\"error\":{\"message\":\""));
  CHECK(has(answer, "\"param\":null,\"code\":\"" + std::string(code) + "\"}}"));
  CHECK_FALSE(client.was_reset);
}

}  // namespace

TEST_SUITE_BEGIN("runtime/http");

TEST_CASE("a connection serves one request after the other") {
  site s;
  raw_client client{s.port()};
  for (int i = 0; i < 3; ++i) {
    REQUIRE(client.send(get("/hello")));
    CHECK(client.read_answer() ==
          "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello");
  }
  CHECK(s.server().stats().accepted == 1);
  CHECK(s.server().stats().requests == 3);
  CHECK(s.server().stats().responses[1] == 3);
}

TEST_CASE("requests sent ahead are answered in order, also more than are held at once") {
  site s{{.pipelined_bytes = 100}};
  raw_client client{s.port()};
  std::string all;
  constexpr int count = 200;
  for (int i = 0; i < count; ++i) all += get("/info?" + std::to_string(i));
  REQUIRE(client.send(get("/hold") + all));
  auto held = s.next_held();
  REQUIRE(held);
  // nothing overtakes the open answer, and of what was sent ahead no more than the bound is read
  CHECK(eventually([&s] { return s.server().stats().bytes_in >= 100; }));
  CHECK(s.server().stats().requests == 1);
  CHECK(s.server().stats().bytes_in <= 64 * 1024 + 100);
  REQUIRE(held->respond(200, "text/plain", "first"));
  CHECK(client.read_answer().ends_with("first"));
  for (int i = 0; i < count; ++i) {
    CAPTURE(i);
    CHECK(has(client.read_answer(), "/info?" + std::to_string(i) + " "));
  }
}

TEST_CASE("a request may arrive one byte at a time") {
  site s;
  raw_client client{s.port()};
  for (const char c : post("/echo", "abc")) REQUIRE(client.send({&c, 1}));
  CHECK(client.read_answer().ends_with("\r\n\r\nabc"));
}

TEST_CASE("method, decoded path, query and headers reach the handler") {
  site s;
  raw_client client{s.port()};
  REQUIRE(client.send("PATCH /%69nfo?a=%20b HTTP/1.1\r\nhOsT: x\r\nX-TEST:  v w \r\n\r\n"));
  CHECK(client.read_answer().ends_with("PATCH /info?a=%20b x-test=v w body=0"));
  REQUIRE(client.send("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"));
  CHECK(client.read_answer().ends_with("OPTIONS *? x-test= body=0"));
  REQUIRE(client.send("GET http://other/info?q HTTP/1.1\r\nHost: x\r\n\r\n"));
  CHECK(client.read_answer().ends_with("GET /info?q x-test= body=0"));
}

TEST_CASE("a chunked body is put together, and its trailers are no headers") {
  site s;
  raw_client client{s.port()};
  REQUIRE(
      client.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "3\r\nabc\r\n1;ext=1\r\nd\r\n0\r\nX-Test: no\r\n\r\n"));
  CHECK(client.read_answer().ends_with("\r\n\r\nabcd"));
  REQUIRE(
      client.send("POST /info HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "0\r\nX-Test: no\r\n\r\n"));
  CHECK(client.read_answer().ends_with("x-test= body=0"));
}

TEST_CASE("a client that waits for 100 Continue is invited, one that does not is not") {
  site s;
  raw_client client{s.port()};
  const std::string head =
      "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
  REQUIRE(client.send(head));
  CHECK(client.read_until("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
  REQUIRE(client.send("abc"));
  CHECK(client.read_answer().ends_with("\r\n\r\nabc"));
  REQUIRE(client.send(head + "abc"));
  CHECK(client.read_answer().starts_with("HTTP/1.1 200"));
}

TEST_CASE("a body over the limit is refused before it is sent") {
  site s{{.body_bytes = 10}};
  raw_client client{s.port()};
  REQUIRE(client.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n"));
  check_refused(client, "413", "body_too_large");
}

TEST_CASE("HEAD gets the head alone") {
  site s;
  raw_client client{s.port()};
  REQUIRE(client.send("HEAD /hello HTTP/1.1\r\nHost: x\r\n\r\n" + get("/hello")));
  CHECK(client.read_until("\r\n\r\n") ==
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\n");
  CHECK(client.read_answer().ends_with("\r\n\r\nhello"));
}

TEST_CASE("an HTTP/1.0 client gets its connection closed unless it asks to keep it") {
  site s;
  raw_client once{s.port()};
  REQUIRE(once.send("GET /hello HTTP/1.0\r\n\r\n"));
  const std::string answer = once.read_to_end();
  CHECK(has(answer, "connection: close\r\n"));
  CHECK(answer.ends_with("hello"));
  raw_client kept{s.port()};
  for (int i = 0; i < 2; ++i) {
    REQUIRE(kept.send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    CHECK(has(kept.read_answer(), "connection: keep-alive\r\n"));
  }
}

TEST_CASE("Connection: close is honoured") {
  site s;
  raw_client client{s.port()};
  REQUIRE(client.send(get("/hello", "Connection: close\r\n")));
  CHECK(client.read_to_end().ends_with("hello"));
}

TEST_CASE("a handler that throws or drops its responder costs one answer, not the server") {
  site s;
  for (const char* path : {"/throw", "/drop"}) {
    CAPTURE(path);
    raw_client client{s.port()};
    REQUIRE(client.send(get(path)));
    CHECK(client.read_answer().starts_with("HTTP/1.1 500"));
    REQUIRE(client.send(get("/hello")));
    CHECK(client.read_answer().starts_with("HTTP/1.1 200"));
  }
}

TEST_CASE("headers up to the limit are taken, one byte more is 431") {
  site s{{.header_bytes = 1024}};
  for (const size_t size : {1024, 1025}) {
    CAPTURE(size);
    std::string request = get("/hello", "X-Fill: \r\n");
    request.insert(request.find("X-Fill: ") + 8, size - request.size(), 'x');
    REQUIRE(request.size() == size);
    raw_client client{s.port()};
    REQUIRE(client.send(request));
    if (size == 1024) {
      CHECK(client.read_answer().starts_with("HTTP/1.1 200"));
    } else {
      check_refused(client, "431", "header_too_large");
    }
  }
}

TEST_CASE("many small headers in many pieces count together") {
  site s{{.header_bytes = 1024}};
  raw_client client{s.port()};
  client.send("GET /hello HTTP/1.1\r\nHost: x\r\n");
  for (int i = 0; i < 100; ++i) client.send("A: 0123456789\r\n");
  check_refused(client, "431", "header_too_large");
}

TEST_CASE("a body up to the limit is taken, one byte more is 413, chunked or not") {
  site s{{.body_bytes = 1000}};
  raw_client fits{s.port()};
  REQUIRE(fits.send(post("/echo", std::string(1000, 'x'))));
  CHECK(fits.read_answer().starts_with("HTTP/1.1 200"));
  raw_client over{s.port()};
  over.send(post("/echo", std::string(1001, 'x')));
  check_refused(over, "413", "body_too_large");
  raw_client chunked{s.port()};
  chunked.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1f4\r\n" +
               std::string(500, 'x') + "\r\n1f5\r\n" + std::string(501, 'x') + "\r\n0\r\n\r\n");
  check_refused(chunked, "413", "body_too_large");
}

TEST_CASE("an endless chunk line or trailer is refused") {
  site s{{.header_bytes = 1024}};
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  raw_client line{s.port()};
  line.send(head + "1;" + std::string(2000, 'x'));
  check_refused(line, "431", "header_too_large");
  raw_client trailer{s.port()};
  trailer.send(head + "0\r\nA: " + std::string(2000, 'x'));
  check_refused(trailer, "431", "header_too_large");
}

TEST_CASE("the bodies of all open requests together have a limit") {
  site s{{.body_bytes = 1000, .total_body_bytes = 1500}};
  raw_client first{s.port()};
  REQUIRE(first.send(post("/hold", std::string(1000, 'x'))));
  auto held = s.next_held();
  REQUIRE(held);
  CHECK(s.server().stats().body_bytes == 1000);
  raw_client second{s.port()};
  second.send(post("/echo", std::string(501, 'x')));
  check_refused(second, "503", "overloaded");
  REQUIRE(held->respond(200, "text/plain", ""));
  CHECK(first.read_answer().starts_with("HTTP/1.1 200"));
  raw_client third{s.port()};
  REQUIRE(third.send(post("/echo", std::string(501, 'x'))));
  CHECK(third.read_answer().starts_with("HTTP/1.1 200"));
  CHECK(eventually([&s] { return s.server().stats().body_bytes == 0; }));
}

TEST_CASE("a connection over the limit gets 503, and one that closes makes room") {
  site s{{.max_connections = 2}};
  raw_client first{s.port()};
  {
    raw_client second{s.port()};
    REQUIRE(first.send(get("/hello")));
    CHECK(first.read_answer().starts_with("HTTP/1.1 200"));
    REQUIRE(second.send(get("/hello")));
    CHECK(second.read_answer().starts_with("HTTP/1.1 200"));
    raw_client third{s.port()};
    check_refused(third, "503", "too_many_connections");
    CHECK(s.server().stats().refused_connections == 1);
  }
  CHECK(eventually([&s] { return s.server().stats().open_connections == 1; }));
  raw_client fourth{s.port()};
  REQUIRE(fourth.send(get("/hello")));
  CHECK(fourth.read_answer().starts_with("HTTP/1.1 200"));
}

TEST_CASE("headers that do not come in time get 408, also when a byte comes now and then") {
  site s{{.header_timeout = 100ms}};
  raw_client client{s.port()};
  REQUIRE(client.send("GET /hello HTTP/1.1\r\nHost: x\r\n"));
  bool goes_on = true;
  const bool ended = eventually([&] {
    goes_on = goes_on && client.send("A: b\r\n");  // about one a millisecond
    return s.server().stats().timeouts == 1;
  });
  CHECK(ended);
  check_refused(client, "408", "request_timeout");
}

TEST_CASE("a body that does not come in time gets 408") {
  site s{{.body_timeout = 50ms}};
  raw_client client{s.port()};
  REQUIRE(client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nab"));
  check_refused(client, "408", "request_timeout");
}

TEST_CASE("a quiet connection is closed without a word, before and after a request") {
  site s{{.idle_timeout = 50ms}};
  raw_client fresh{s.port()};
  CHECK(fresh.read_to_end().empty());
  CHECK_FALSE(fresh.was_reset);
  raw_client used{s.port()};
  REQUIRE(used.send(get("/hello")));
  CHECK(used.read_answer().ends_with("hello"));
  CHECK(used.read_to_end().empty());
  CHECK_FALSE(used.was_reset);
}

TEST_CASE("an open answer is not idle") {
  site s{{.idle_timeout = 20ms, .header_timeout = 20ms, .body_timeout = 20ms}};
  raw_client client{s.port()};
  REQUIRE(client.send(get("/hold")));
  auto held = s.next_held();
  REQUIRE(held);
  raw_client other{s.port()};  // its idle end shows that time has passed
  CHECK(other.read_to_end().empty());
  REQUIRE(held->respond(200, "text/plain", "late"));
  CHECK(client.read_answer().ends_with("late"));
}

TEST_CASE("what is not HTTP gets 400 in the error shape") {
  site s;
  const std::string_view bad[] = {
      "\x16\x03\x01\x02\x01\x01\x01\x01\r\n\r\n",
      "GET\r\n\r\n",
      "GET / HTTP/1.1\r\nHost x\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
      "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
      "GET %00 HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
      "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nA\0: b\r\n\r\n"sv,
  };
  for (const std::string_view request : bad) {
    CAPTURE(request);
    raw_client client{s.port()};
    REQUIRE(client.send(request));
    check_refused(client, "400", "malformed_http");
  }
  CHECK(s.server().stats().requests == 0);
  CHECK(s.server().stats().rejected_requests == std::size(bad));
}

TEST_CASE("a transfer coding that hides the end of the body gets 501") {
  site s;
  for (const char* coding : {"gzip", "chunked, gzip", "xchunked"}) {
    CAPTURE(coding);
    raw_client client{s.port()};
    REQUIRE(client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: " + std::string(coding) +
                        "\r\n\r\n0\r\n\r\n"));
    check_refused(client, "501", "unsupported_transfer_encoding");
  }
}

TEST_SUITE_END();
