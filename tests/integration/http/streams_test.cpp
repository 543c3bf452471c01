#include "runtime/http/sse.hpp"
#include "tests/integration/http/site.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <thread>
#include <utility>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

namespace {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// A client with an open stream, and the responder of it.
struct open_stream {
  raw_client client;
  std::shared_ptr<http_responder> responder;

  explicit open_stream(site& s, std::string_view request = {}) : client(s.port()) {
    REQUIRE(client.send(request.empty() ? get("/hold") : std::string(request)));
    responder = s.next_held();
    REQUIRE(responder);
  }
};

/// The reason why an answer can no longer arrive, once.
struct closed_watch {
  std::promise<failure> promise;
  std::future<failure> future = promise.get_future();
  std::atomic<int> calls{0};

  explicit closed_watch(http_responder& responder) {
    responder.on_closed([this](const failure& why) {
      if (calls++ == 0) promise.set_value(why);
    });
  }
  bool has_fired() { return future.wait_for(patience) == std::future_status::ready; }
};

std::string fill_until_refused(http_responder& responder, size_t piece) {
  std::string refused;
  while (true) {
    const auto done = responder.write(std::string(piece, 'x'));
    if (!done)
      return to_string(done.error().code) == "no_capacity" ? "no_capacity" : done.error().detail;
  }
}

}  // namespace

TEST_SUITE_BEGIN("runtime/http");

TEST_CASE("a stream arrives piece by piece, ends properly, and the connection lives on") {
  site s;
  open_stream stream{s};
  REQUIRE(stream.responder->begin_stream(200, "text/event-stream"));
  const std::string head = stream.client.read_until("\r\n\r\n");
  CHECK(has(head, "transfer-encoding: chunked\r\n"));
  CHECK(has(head, "content-type: text/event-stream\r\n"));
  CHECK(has(head, "cache-control: no-cache\r\n"));
  CHECK(has(head, "x-accel-buffering: no\r\n"));
  for (const char* piece : {"data: 1\n\n", "data: 22\n\n"}) {
    REQUIRE(stream.responder->write(piece));
    CHECK(has(stream.client.read_until("\n\n\r\n"), piece));
  }
  CHECK(stream.responder->write(""));  // must not read as the end
  REQUIRE(stream.responder->finish());
  CHECK(stream.client.read_until("0\r\n\r\n") == "0\r\n\r\n");
  REQUIRE(stream.client.send(get("/hello")));
  CHECK(stream.client.read_answer().ends_with("hello"));
}

TEST_CASE("writes that gather leave as one chunk") {
  site s;
  open_stream stream{s};
  REQUIRE(stream.responder->begin_stream(200, "text/plain"));
  stream.client.read_until("\r\n\r\n");
  // the I/O thread is kept busy, so that the writes gather
  std::promise<void> go, gathered;
  open_stream other{s};
  REQUIRE(other.responder->begin_stream(200, "text/plain"));
  other.responder->on_drain([&go, &gathered, is_first = true]() mutable {
    if (!std::exchange(is_first, false)) return;
    gathered.set_value();
    go.get_future().wait();
  });
  REQUIRE(fill_until_refused(*other.responder, 64 << 10) == "no_capacity");
  other.client.read_until("\r\n\r\n");
  std::thread reader{[&other] { other.client.read_until("the end"); }};
  gathered.get_future().wait();
  for (int i = 0; i < 10; ++i) REQUIRE(stream.responder->write("ab"));
  go.set_value();
  CHECK(stream.client.read_until("abab\r\n") == "14\r\nabababababababababab\r\n");
  REQUIRE(other.responder->write("the end"));
  reader.join();
}

TEST_CASE("an HTTP/1.0 client gets the plain bytes and then the end") {
  site s;
  open_stream stream{s, "GET /hold HTTP/1.0\r\n\r\n"};
  REQUIRE(stream.responder->begin_stream(200, "text/plain"));
  REQUIRE(stream.responder->write("abc"));
  REQUIRE(stream.responder->write("def"));
  REQUIRE(stream.responder->finish());
  const std::string all = stream.client.read_to_end();
  CHECK_FALSE(has(all, "chunked"));
  CHECK(all.ends_with("\r\n\r\nabcdef"));
}

TEST_CASE("HEAD of a stream gets its head alone") {
  site s;
  open_stream stream{s, "HEAD /hold HTTP/1.1\r\nHost: x\r\n\r\n"};
  REQUIRE(stream.responder->begin_stream(200, "text/plain"));
  REQUIRE(stream.responder->write("abc"));
  REQUIRE(stream.responder->finish());
  REQUIRE(stream.client.send(get("/hello")));
  stream.client.read_until("\r\n\r\n");
  CHECK(stream.client.read_answer().starts_with("HTTP/1.1 200"));
}

TEST_CASE("calls out of order fail and change nothing") {
  site s;
  open_stream stream{s};
  http_responder& r = *stream.responder;
  CHECK(r.write("x").error().code == error_code::invalid_argument);
  CHECK(r.finish().error().code == error_code::invalid_argument);
  CHECK(r.respond(99, "", "").error().code == error_code::invalid_argument);
  CHECK(r.respond(200, "a\r\nb: c", "").error().code == error_code::invalid_argument);
  CHECK(r.respond(200, "", "", {{"a b", ""}}).error().code == error_code::invalid_argument);
  CHECK(r.respond(200, "", "", {{"a", "x\ny"}}).error().code == error_code::invalid_argument);
  CHECK(r.begin_stream(204, "").error().code == error_code::invalid_argument);
  REQUIRE(r.begin_stream(200, "text/plain"));
  CHECK(r.begin_stream(200, "text/plain").error().code == error_code::invalid_argument);
  CHECK(r.respond(200, "", "").error().code == error_code::invalid_argument);
  REQUIRE(r.finish());
  CHECK(r.write("x").error().code == error_code::invalid_argument);
  CHECK(r.finish().error().code == error_code::invalid_argument);
  CHECK(stream.client.read_until("0\r\n\r\n").ends_with("\r\n\r\n0\r\n\r\n"));
  CHECK(
      eventually([&r] { return r.write("x").error().detail == "the answer is complete already"; }));
}

TEST_CASE("a client that closes, half-closes or resets is noticed while nothing is being sent") {
  site s;
  for (const bool is_streaming : {false, true}) {
    for (const std::string how : {"close", "half-close", "reset", "close after pipelining"}) {
      CAPTURE(is_streaming);
      CAPTURE(how);
      auto client = std::make_unique<raw_client>(s.port());
      REQUIRE(client->send(get("/hold")));
      const auto responder = s.next_held();
      REQUIRE(responder);
      if (is_streaming) REQUIRE(responder->begin_stream(200, "text/event-stream"));
      closed_watch watch{*responder};
      if (how == "half-close") client->shutdown_write();
      if (how == "reset") client->reset();
      if (how == "close after pipelining") REQUIRE(client->send(get("/hello")));
      if (how != "half-close") client.reset();
      REQUIRE(watch.has_fired());
      CHECK(watch.future.get().code == error_code::unreachable);
      CHECK(watch.calls == 1);
      const auto late =
          is_streaming ? responder->write("x").error() : responder->respond(200, "", "").error();
      CHECK(late.code == error_code::unreachable);
      int calls = 0;  // who asks late is told at once
      responder->on_closed([&calls](const failure&) { ++calls; });
      CHECK(calls == 1);
    }
  }
  CHECK(s.server().stats().clients_gone == 8);
  CHECK(eventually([&s] { return s.server().stats().open_connections == 0; }));
  CHECK(s.server().stats().open_answers == 0);
}

TEST_CASE("a client that leaves after its answer is nobody's business") {
  site s;
  open_stream stream{s};
  closed_watch watch{*stream.responder};
  REQUIRE(stream.responder->respond(200, "text/plain", "x"));
  CHECK(stream.client.read_answer().ends_with("x"));
  { const raw_client gone = std::move(stream.client); }
  CHECK(eventually([&s] { return s.server().stats().open_connections == 0; }));
  CHECK(watch.calls == 0);
  CHECK(s.server().stats().clients_gone == 0);
}

TEST_CASE("unsent bytes are bounded, and the writer is told when to go on") {
  site s{{.pending_write_bytes = 64 << 10, .low_water_bytes = 16 << 10}};
  open_stream stream{s};
  REQUIRE(stream.responder->begin_stream(200, "text/plain"));
  CHECK(stream.responder->write(std::string((64 << 10) + 1, 'x')).error().code ==
        error_code::too_large);
  std::atomic<int> drained{0};
  stream.responder->on_drain([&drained] { ++drained; });
  // the client does not read: the kernel's buffers fill, then ours
  std::string why = fill_until_refused(*stream.responder, 1000);
  REQUIRE(why == "no_capacity");
  CHECK(eventually([&] {
    why = fill_until_refused(*stream.responder, 1000);
    return stream.responder->pending_bytes() > (63 << 10);
  }));
  CHECK(stream.responder->pending_bytes() <= (64 << 10));
  CHECK(s.server().stats().refused_writes >= 1);
  const int before = drained;
  std::thread reader{[&stream] { stream.client.read_until("the end"); }};
  CHECK(eventually([&] { return drained > before; }));
  CHECK(stream.responder->pending_bytes() <= (16 << 10));
  CHECK(eventually([&] { return bool(stream.responder->write("the end")); }));
  reader.join();
}

TEST_CASE("every byte of a backed-up stream arrives once and in order") {
  site s{{.pending_write_bytes = 32 << 10, .low_water_bytes = 8 << 10}};
  open_stream stream{s, "GET /hold HTTP/1.0\r\n\r\n"};
  REQUIRE(stream.responder->begin_stream(200, "text/plain"));
  std::atomic<bool> may_write{true};
  stream.responder->on_drain([&may_write] { may_write = true; });
  std::string want;
  auto got = std::async(std::launch::async, [&stream] {
    stream.client.read_until("\r\n\r\n");
    return stream.client.read_to_end();
  });
  for (int i = 0; i < 200000; ++i) {
    const std::string piece = std::to_string(i) + ",";
    want += piece;
    while (true) {
      const auto done = stream.responder->write(piece);
      if (done) break;
      REQUIRE(done.error().code == error_code::no_capacity);
      REQUIRE(eventually([&may_write] { return may_write.exchange(false); }));
    }
  }
  REQUIRE(stream.responder->finish());
  CHECK(got.get() == want);
}

TEST_CASE("a client that takes no byte in time is cut off") {
  site s{{.write_stall_timeout = 100ms}};
  open_stream stream{s};
  REQUIRE(stream.responder->begin_stream(200, "text/plain"));
  closed_watch watch{*stream.responder};
  while (watch.calls == 0)
    if (!stream.responder->write(std::string(64 << 10, 'x'))) std::this_thread::yield();
  REQUIRE(watch.has_fired());
  CHECK(watch.future.get().code == error_code::deadline_exceeded);
  CHECK(s.server().stats().stalled_writes == 1);
}

TEST_CASE("a stream given up half-way is cut, so that nobody takes it for complete") {
  site s;
  open_stream stream{s};
  REQUIRE(stream.responder->begin_stream(200, "text/plain"));
  REQUIRE(stream.responder->write("abc"));
  CHECK(has(stream.client.read_until("abc\r\n"), "abc"));
  stream.responder.reset();
  const std::string rest = stream.client.read_to_end();
  CHECK(rest.empty());
  CHECK(stream.client.was_reset);
}

TEST_CASE("stop lets open answers finish, tells those that do not, and returns") {
  site s{{.drain_timeout = 300ms}};
  open_stream quick{s};
  open_stream endless{s};
  raw_client quiet{s.port()};
  REQUIRE(quiet.send(get("/hello")));
  CHECK(quiet.read_answer().ends_with("hello"));
  REQUIRE(endless.responder->begin_stream(200, "text/event-stream"));
  closed_watch endless_watch{*endless.responder};
  closed_watch quick_watch{*quick.responder};
  std::thread stopper{[&s] { s.server().stop(); }};
  CHECK(quiet.read_to_end().empty());  // closed at once: the stop has begun
  CHECK_FALSE(quiet.was_reset);
  REQUIRE(quick.responder->respond(200, "text/plain", "in time"));
  CHECK(quick.client.read_to_end().ends_with("in time"));
  stopper.join();
  REQUIRE(endless_watch.has_fired());
  CHECK(endless_watch.future.get().code == error_code::cancelled);
  CHECK(quick_watch.calls == 0);
  CHECK_FALSE(endless.responder->write("x"));
  CHECK(s.server().stats().open_connections == 0);
  s.server().stop();  // again: nothing
  CHECK_FALSE(s.server().start());
  CHECK_FALSE(raw_client{s.port()}.is_open());
}

TEST_CASE("a responder may outlive its server") {
  std::shared_ptr<http_responder> responder;
  {
    site s{{.drain_timeout = 0ms}};
    open_stream stream{s};
    responder = stream.responder;
    REQUIRE(responder->begin_stream(200, "text/plain"));
  }
  CHECK_FALSE(responder->write("x"));
  CHECK_FALSE(responder->finish());
  CHECK(responder->pending_bytes() == 0);
}

TEST_CASE("callbacks that own the responder do not keep it alive for ever") {
  site s;
  std::weak_ptr<http_responder> watched;
  {
    open_stream stream{s};
    watched = stream.responder;
    stream.responder->on_closed([keep = stream.responder](const failure&) {});
    stream.responder->on_drain([keep = stream.responder] {});
    stream.responder->on_closed([keep = stream.responder](const failure&) {});  // replaced
    stream.responder->on_drain([keep = stream.responder] {});
    REQUIRE(stream.responder->respond(200, "text/plain", "x"));
    CHECK(stream.client.read_answer().ends_with("x"));
  }
  CHECK(eventually([&watched] { return watched.expired(); }));
}

TEST_SUITE_END();
