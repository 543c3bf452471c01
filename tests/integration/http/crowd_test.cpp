#include "tests/integration/http/site.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

namespace {

bool may_open(rlim_t descriptors) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  if (limit.rlim_cur >= descriptors) return true;
  limit.rlim_cur = std::min(limit.rlim_max, descriptors);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= descriptors;
}

}  // namespace

TEST_SUITE_BEGIN("runtime/http");

TEST_CASE("a thousand quiet connections and 64 streams at once get their bytes") {
  if (!may_open(4096)) {
    MESSAGE("skipped: the limit on open files cannot be raised to 4096");
    std::puts("skipped: the limit on open files cannot be raised to 4096");
    std::exit(77);
  }
  site s;
  std::vector<raw_client> quiet;
  for (int i = 0; i < 1000; ++i) {
    quiet.emplace_back(s.port());
    REQUIRE(quiet.back().send(get("/hello")));
  }
  for (auto& client : quiet) REQUIRE(client.read_answer().ends_with("hello"));

  constexpr int streams = 64;
  constexpr int events = 200;
  std::vector<raw_client> clients;
  std::vector<std::shared_ptr<http_responder>> responders;
  for (int i = 0; i < streams; ++i) {
    clients.emplace_back(s.port());
    REQUIRE(clients.back().send(get("/hold")));
    responders.push_back(s.next_held());
    REQUIRE(responders.back());
    REQUIRE(responders.back()->begin_stream(200, "text/event-stream"));
  }
  CHECK(s.server().stats().open_connections == 1064);
  CHECK(s.server().stats().open_answers == streams);
  std::vector<std::thread> writers;  // several threads, each with its own streams
  for (int w = 0; w < 4; ++w)
    writers.emplace_back([&responders, w] {
      for (int e = 0; e < events; ++e)
        for (int i = w; i < streams; i += 4)
          (void)responders[i]->write("data: " + std::to_string(i) + "/" + std::to_string(e) +
                                     "\n\n");
      for (int i = w; i < streams; i += 4) (void)responders[i]->finish();
    });
  for (auto& writer : writers) writer.join();
  for (int i = 0; i < streams; ++i) {
    const std::string text = clients[i].read_until("\r\n0\r\n\r\n");
    size_t at = 0;
    for (int e = 0; e < events; ++e) {
      at = text.find("data: " + std::to_string(i) + "/" + std::to_string(e) + "\n\n", at);
      REQUIRE(at != std::string::npos);
    }
  }
  for (auto& client : quiet) {  // and the quiet ones are still served
    REQUIRE(client.send(get("/hello")));
    REQUIRE(client.read_answer().ends_with("hello"));
  }
}

TEST_CASE("garbage from many connections harms nobody else") {
  site s;
  raw_client witness{s.port()};
  const std::array<std::string, 5> seeds{
      get("/hello"), post("/echo", "abc"),
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
      "GET http://a/hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"};
  for (uint64_t seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    test::rng random{seed};
    std::string bytes;
    for (uint32_t i = 0; i < 1 + random.below(4); ++i) bytes += seeds[random.below(5)];
    for (uint32_t i = 0; i < random.below(12); ++i) {  // change, insert or remove a byte
      const size_t at = random.below(static_cast<uint32_t>(bytes.size()));
      const char c = random.below(2) == 0 ? static_cast<char>(random.next())
                                          : "\r\n :;,%/0aF"[random.below(12)];
      const uint32_t what = random.below(3);
      if (what == 0) bytes[at] = c;
      if (what == 1) bytes.insert(at, 1, c);
      if (what == 2) bytes.erase(at, 1);
      if (bytes.empty()) bytes.assign(1, 'x');
    }
    raw_client client{s.port()};
    const size_t cut = random.below(static_cast<uint32_t>(bytes.size() + 1));
    client.send(bytes.substr(0, cut));
    client.send(bytes.substr(cut));
    if (random.below(2) == 0) {
      client.reset();
    } else {
      client.shutdown_write();
      client.read_to_end();  // the server ends it: by an answer, or by our end
    }
    if (seed % 50 == 0) {
      REQUIRE(witness.send(get("/hello")));
      REQUIRE(witness.read_answer().ends_with("hello"));
    }
  }
  REQUIRE(witness.send(get("/hello")));
  CHECK(witness.read_answer().ends_with("hello"));
  CHECK(eventually([&s] { return s.server().stats().open_connections == 1; }));
  CHECK(eventually([&s] { return s.server().stats().open_answers == 0; }));
  CHECK(s.server().stats().body_bytes == 0);
}

TEST_CASE("without a free descriptor the server waits without spinning, and then goes on") {
  site s;
  raw_client warm{s.port()};
  REQUIRE(warm.send(get("/hello")));
  REQUIRE(warm.read_answer().ends_with("hello"));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  // the client's socket takes the last number below the limit: accept finds none
  const int next = ::dup(0);
  REQUIRE(next >= 0);
  ::close(next);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(next) + 1;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &tight) == 0);
  raw_client waiting{s.port()};
  const bool sent = waiting.is_open() && waiting.send(get("/hello"));
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&begin] { return std::chrono::steady_clock::now() - begin; };
  const bool has_waited = eventually(
      [&s, &elapsed] { return elapsed() > 350ms && s.server().stats().accept_errors >= 2; });
  const auto tries = s.server().stats().accept_errors;
  const auto most_tries = static_cast<uint64_t>(elapsed() / 100ms) + 2;
  ::setrlimit(RLIMIT_NOFILE, &before);
  REQUIRE(sent);
  CHECK(has_waited);
  CHECK(tries <= most_tries);  // one in 100 ms, not as fast as it can fail
  CHECK(waiting.read_answer().ends_with("hello"));
}

TEST_CASE("a taken port fails with its name, or gives way to the next where that is allowed") {
  const auto nothing = [](auto, auto) {};
  const auto first = make_http_server({.listen = "127.0.0.1:0"}, nothing);
  REQUIRE(first);
  const std::string taken = (*first)->address();
  const auto named = make_http_server({.listen = taken}, nothing);
  REQUIRE_FALSE(named);
  CHECK(named.error().code == error_code::unreachable);
  CHECK(named.error().detail.find(taken) != std::string::npos);
  CHECK(named.error().detail.find("choose another port") != std::string::npos);
  const auto moved = make_http_server({.listen = taken, .port_tries = 20}, nothing);
  REQUIRE(moved);
  CHECK((*moved)->address() != taken);
}

TEST_CASE("an address that is none is refused") {
  for (const char* address : {"", "127.0.0.1", ":80", "127.0.0.1:", "127.0.0.1:x",
                              "127.0.0.1:65536", "no.such.host.invalid:80"}) {
    CAPTURE(address);
    const auto made = make_http_server({.listen = address}, [](auto, auto) {});
    REQUIRE_FALSE(made);
    CHECK(made.error().code == error_code::invalid_argument);
  }
}

TEST_SUITE_END();
