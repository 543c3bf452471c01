// The HTTP front by itself: short requests and server-sent events over loopback, one client thread,
// against bare TCP sockets that move the same bytes. One JSON line a figure.
#include "runtime/http/client.hpp"
#include "runtime/http/server.hpp"
#include "runtime/http/sse.hpp"
#include "tests/bench/bench_line.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace deepinfer;
using bench_clock = std::chrono::steady_clock;

constexpr int runs = 5;
constexpr int round_trips = 5000;
constexpr int stream_events = 100000;
constexpr int paced_events = 5000;

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "http_bench: %s\n", why.c_str());
  std::exit(1);
}

double seconds(const std::function<void()>& work) {
  const auto begin = bench_clock::now();
  work();
  return std::chrono::duration<double>(bench_clock::now() - begin).count();
}

bench::summary measure(const std::function<double()>& run) {
  (void)run();  // warm
  std::vector<double> values;
  for (int i = 0; i < runs; ++i) values.push_back(run());
  return bench::summarize(values);
}

/// An event of the size a chat token makes.
const std::string& chat_event() {
  static const std::string text = [] {
    std::string out;
    append_sse_event(out, "",
                     R"({"id":"chatcmpl-0123456789abcdef0123456789abcdef",)"
                     R"("object":"chat.completion.chunk","created":1772366400,)"
                     R"("model":"default","choices":[{"index":0,"delta":)"
                     R"({"content":" token"},"finish_reason":null}]})");
    return out;
  }();
  return text;
}

/// /hello; /cpu: seconds the I/O thread has computed; /stream: an open stream for `next_stream`,
/// with one event in it.
class bench_site {
public:
  bench_site() {
    auto made = make_http_server({.listen = "127.0.0.1:0"}, [this](auto request, auto responder) {
      serve(*request, std::move(responder));
    });
    if (!made) give_up(made.error().detail);
    server_ = *std::move(made);
    if (!server_->start()) give_up("the server does not start");
  }

  http_client client() const {
    const auto url = parse_url(server_->address());
    if (!url) give_up(url.error().detail);
    return http_client{url->host, url->port};
  }
  std::shared_ptr<http_responder> next_stream() {
    std::unique_lock lock{mutex_};
    arrived_.wait(lock, [this] { return stream_ != nullptr; });
    return std::exchange(stream_, nullptr);
  }
  double io_thread_seconds() const {
    const auto answer = client().call({.path = "/cpu"});
    if (!answer) give_up(answer.error().detail);
    return std::stod(answer->body);
  }

private:
  void serve(const http_request& request, std::shared_ptr<http_responder> responder) {
    if (request.path == "/stream") {
      (void)responder->begin_stream(200, "text/event-stream");
      (void)responder->write(chat_event());
      const std::lock_guard lock{mutex_};
      stream_ = std::move(responder);
      arrived_.notify_one();
    } else if (request.path == "/cpu") {
      timespec used{};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
      const double spent =
          static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
      (void)responder->respond(200, "text/plain", std::to_string(spent));
    } else {
      (void)responder->respond(200, "text/plain", "hello");
    }
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::shared_ptr<http_responder> stream_;
  std::unique_ptr<http_server> server_;
};

double requests_per_s(bench_site& site) {
  http_client client = site.client();
  const double took = seconds([&client] {
    for (int i = 0; i < round_trips; ++i)
      if (!client.call({.path = "/hello"})) give_up("a request failed");
  });
  return round_trips / took;
}

/// Writes as fast as the bound on unsent bytes allows.
void write_events(bench_site& site, int count) {
  const auto responder = site.next_stream();
  std::mutex mutex;
  std::condition_variable changed;
  bool has_drained = false;
  responder->on_drain([&mutex, &changed, &has_drained] {
    const std::lock_guard lock{mutex};
    has_drained = true;
    changed.notify_one();
  });
  for (int i = 0; i < count;) {
    const auto done = responder->write(chat_event());
    if (done) {
      ++i;
      continue;
    }
    if (done.error().code != error_code::no_capacity) give_up(done.error().detail);
    std::unique_lock lock{mutex};
    changed.wait(lock, [&has_drained] { return has_drained; });
    has_drained = false;
  }
  responder->on_drain({});
  (void)responder->finish();
}

/// One stream at full speed; the reader parses every event.
double events_per_s(bench_site& site) {
  http_client client = site.client();
  sse_parser parser;
  int seen = 0;
  std::thread writer{[&site] { write_events(site, stream_events); }};
  const double took = seconds([&client, &parser, &seen] {
    const auto count = [&seen](const sse_event&) { ++seen; };
    const auto answer = client.stream(
        {.path = "/stream"}, [&parser, &count](const http_answer&, std::string_view piece) {
          return bool(parser.feed(piece, count));
        });
    if (!answer) give_up(answer.error().detail);
  });
  writer.join();
  if (seen != stream_events + 1) give_up("events were lost");
  return seen / took;
}

/// One event on the way at a time, as from a decoder: nothing can be gathered. Returns how many a
/// second; `cpu_us` is what the I/O thread computed for one.
double paced_events_per_s(bench_site& site, double& cpu_us) {
  http_client client = site.client();
  std::shared_ptr<http_responder> responder;
  int seen = 0;
  const double cpu_before = site.io_thread_seconds();
  const double took = seconds([&site, &client, &responder, &seen] {
    const auto answer =
        client.stream({.path = "/stream"}, [&](const http_answer&, std::string_view) {
          if (!responder) responder = site.next_stream();
          if (++seen < paced_events) return bool(responder->write(chat_event()));
          return bool(responder->finish());
        });
    if (!answer) give_up(answer.error().detail);
  });
  cpu_us = (site.io_thread_seconds() - cpu_before) * 1e6 / paced_events;
  return seen / took;
}

struct socket_pair {
  int client = -1;
  int server = -1;

  socket_pair() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    auto* address = reinterpret_cast<sockaddr*>(&at);
    client = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::bind(listener, address, size) != 0 || ::listen(listener, 1) != 0 ||
        ::getsockname(listener, address, &size) != 0 || ::connect(client, address, size) != 0)
      give_up("no loopback socket");
    server = ::accept(listener, nullptr, nullptr);
    ::close(listener);
    const int yes = 1;
    for (const int fd : {client, server})
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  }
  ~socket_pair() {
    ::close(client);
    ::close(server);
  }
};

/// All of `buffer`, sent or received.
bool move_bytes(int fd, std::vector<char>& buffer, bool (*step)(int, char*, size_t)) {
  return step(fd, buffer.data(), buffer.size());
}

bool send_all(int fd, char* bytes, size_t count) {
  return ::send(fd, bytes, count, MSG_NOSIGNAL) == static_cast<ssize_t>(count);
}

bool receive_all(int fd, char* bytes, size_t count) {
  return ::recv(fd, bytes, count, MSG_WAITALL) == static_cast<ssize_t>(count);
}

/// The sizes of the short request and its answer, bounced between two blocking threads.
double echoes_per_s() {
  socket_pair pair;
  std::vector<char> question(45), answer(83);
  std::thread server{[&pair, q = question, a = answer]() mutable {
    while (move_bytes(pair.server, q, receive_all) && move_bytes(pair.server, a, send_all)) {
    }
  }};
  const double took = seconds([&pair, &question, &answer] {
    for (int i = 0; i < round_trips; ++i)
      if (!move_bytes(pair.client, question, send_all) ||
          !move_bytes(pair.client, answer, receive_all))
        give_up("the echo failed");
  });
  ::shutdown(pair.client, SHUT_RDWR);
  server.join();
  return round_trips / took;
}

/// The bytes of the events, one system call each, read by a blocking thread.
double bare_events_per_s() {
  socket_pair pair;
  std::vector<char> event(chat_event().begin(), chat_event().end());
  std::thread writer{[&pair, event]() mutable {
    for (int i = 0; i < stream_events; ++i)
      if (!move_bytes(pair.server, event, send_all)) give_up("the bare stream failed");
    ::shutdown(pair.server, SHUT_WR);
  }};
  std::vector<char> buffer(64 << 10);
  const double took = seconds([&pair, &buffer] {
    while (::recv(pair.client, buffer.data(), buffer.size(), 0) > 0) {
    }
  });
  writer.join();
  return stream_events / took;
}

}  // namespace

int main() {
  bench_site site;
  const auto echo = measure(echoes_per_s);
  bench::print_line("http.tcp_echo", echo, "round trips/s");
  bench::print_line("http.short_requests", measure([&site] { return requests_per_s(site); }),
                    "requests/s", {"http.tcp_echo", echo.median});
  const auto bare = measure(bare_events_per_s);
  bench::print_line("http.tcp_stream", bare, "events/s");
  bench::print_line("http.sse_stream", measure([&site] { return events_per_s(site); }), "events/s",
                    {"http.tcp_stream", bare.median});
  std::vector<double> cpu;
  const auto paced =
      measure([&site, &cpu] { return paced_events_per_s(site, cpu.emplace_back()); });
  bench::print_line("http.sse_paced", paced, "events/s", {"http.tcp_echo", echo.median});
  bench::print_line("http.sse_paced_io_cpu", bench::summarize(cpu), "us/event");
  return 0;
}
