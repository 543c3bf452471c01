#include "runtime/http/client.hpp"

#include "runtime/http/sse.hpp"
#include "tests/integration/http/site.hpp"

#include <doctest/doctest.h>

#include <thread>

using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

TEST_SUITE_BEGIN("runtime/http");

TEST_CASE("the client keeps its connection from call to call") {
  site s;
  http_client client{"127.0.0.1", s.port()};
  for (int i = 0; i < 3; ++i) {
    const auto answer = client.call(
        {.method = "POST", .path = "/info?q", .headers = {{"X-Test", "v"}}, .body = "abc"});
    REQUIRE(answer);
    CHECK(answer->status == 200);
    CHECK(answer->header("content-type") == "text/plain");
    CHECK(answer->body == "POST /info?q x-test=v body=3");
  }
  CHECK(client.call({.path = "/none"})->status == 404);
  CHECK(client.call({.method = "HEAD", .path = "/hello"})->body.empty());
  CHECK(s.server().stats().accepted == 1);
}

TEST_CASE("a kept connection that the server closed meanwhile is made anew for GET") {
  site s{{.idle_timeout = 30ms}};
  http_client client{"localhost", s.port()};
  REQUIRE(client.call({.path = "/hello"}));
  REQUIRE(eventually([&s] {
    return s.server().stats().open_connections == 0 || s.server().stats().timeouts > 0;
  }));
  const auto again = client.call({.path = "/hello"});
  REQUIRE(again);
  CHECK(again->body == "hello");
}

TEST_CASE("a large body survives both ways") {
  site s;
  http_client client{"127.0.0.1", s.port()};
  std::string body(5 << 20, 'x');
  for (size_t i = 0; i < body.size(); i += 97) body[i] = static_cast<char>(i);
  const auto answer = client.call({.method = "POST", .path = "/echo", .body = body});
  REQUIRE(answer);
  CHECK(answer->body == body);
}

TEST_CASE("events of a stream reach the caller as they come") {
  site s;
  http_client client{"127.0.0.1", s.port()};
  std::thread answerer{[&s] {
    const auto responder = s.next_held();
    (void)responder->begin_stream(200, "text/event-stream");
    for (int i = 0; i < 100; ++i) {
      std::string event;
      append_sse_event(event, "tick", std::to_string(i) + "\nx");
      (void)responder->write(std::move(event));
      (void)responder->write(sse_comment("ping"));
    }
    (void)responder->finish();
  }};
  sse_parser parser;
  int count = 0;
  const auto answer =
      client.stream({.path = "/hold"}, [&](const http_answer& head, std::string_view piece) {
        CHECK(head.status == 200);
        return bool(parser.feed(piece, [&count](const sse_event& event) {
          CHECK(event.event == "tick");
          CHECK(event.data == std::to_string(count) + "\nx");
          ++count;
        }));
      });
  answerer.join();
  REQUIRE(answer);
  CHECK(count == 100);
  CHECK_FALSE(parser.has_partial());
  CHECK(client.call({.path = "/hello"})->body == "hello");  // the connection is still good
  CHECK(s.server().stats().accepted == 1);
}

TEST_CASE("a sink that has enough ends the call, and the server learns of it") {
  site s;
  http_client client{"127.0.0.1", s.port()};
  std::thread answerer{[&s] {
    const auto responder = s.next_held();
    (void)responder->begin_stream(200, "text/plain");
    CHECK(eventually([&responder] { return !responder->write("x"); }));
  }};
  const auto answer =
      client.stream({.path = "/hold"}, [](const http_answer&, std::string_view) { return false; });
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == error_code::cancelled);
  answerer.join();
}

TEST_CASE("a stream cut off half-way is an error, never an end") {
  site s;
  http_client client{"127.0.0.1", s.port()};
  std::thread answerer{[&s] {
    const auto responder = s.next_held();
    (void)responder->begin_stream(200, "text/plain");
    (void)responder->write("x");
  }};
  const auto answer = client.call({.path = "/hold"});
  answerer.join();
  REQUIRE_FALSE(answer);
  CHECK(answer.error().code == error_code::unreachable);
}

TEST_CASE("each wait of the client has a deadline") {
  site s;
  http_client total{"127.0.0.1", s.port(), {.total_timeout = 50ms}};
  CHECK(total.call({.path = "/hold"}).error().code == error_code::deadline_exceeded);
  http_client quiet{"127.0.0.1", s.port(), {.quiet_timeout = 50ms}};
  CHECK(quiet.call({.path = "/hold"}).error().code == error_code::deadline_exceeded);
}

TEST_CASE("nobody there, a bad call and too long an answer are told apart") {
  uint16_t port = 0;
  {
    site gone;
    port = gone.port();
  }
  http_client nobody{"127.0.0.1", port};
  CHECK(nobody.call({}).error().code == error_code::unreachable);
  site s;
  http_client client{"127.0.0.1", s.port(), {.body_bytes = 4}};
  CHECK(client.call({.path = "/hello"}).error().code == error_code::too_large);
  CHECK(client.call({.path = "/none"})->status == 404);
  CHECK(client.call({.path = "no slash"}).error().code == error_code::invalid_argument);
  CHECK(client.call({.headers = {{"a", "b\r\nc: d"}}}).error().code ==
        error_code::invalid_argument);
}

TEST_CASE("an answer that comes before the body was sent is still read") {
  site s{{.body_bytes = 1000}};
  http_client client{"127.0.0.1", s.port()};
  const auto answer =
      client.call({.method = "POST", .path = "/echo", .body = std::string(200 << 10, 'x')});
  REQUIRE(answer);
  CHECK(answer->status == 413);
}

TEST_SUITE_END();
