#include "tests/integration/http/site.hpp"

#include "proto/types/check.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <utility>

namespace deepinfer::test {
namespace {

using clock = std::chrono::steady_clock;

bool wait_for(int fd, short what) {
  pollfd one{fd, what, 0};
  return ::poll(&one, 1, static_cast<int>(patience.count())) > 0;
}

}  // namespace

bool eventually(const std::function<bool()>& condition) {
  const auto end = clock::now() + patience;
  while (!condition()) {
    if (clock::now() > end) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

site::site(http_config config) {
  config.listen = "127.0.0.1:0";
  auto made = make_http_server(config, [this](auto request, auto responder) {
    serve(std::move(request), std::move(responder));
  });
  DEEPINFER_CHECK(made.has_value());
  server_ = *std::move(made);
  const std::string address = server_->address();
  port_ = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  DEEPINFER_CHECK(server_->start().has_value());
}

void site::serve(std::shared_ptr<const http_request> request,
                 std::shared_ptr<http_responder> responder) {
  if (request->path == "/hello") {
    (void)responder->respond(200, "text/plain", "hello");
  } else if (request->path == "/echo") {
    (void)responder->respond(200, "application/octet-stream", request->body);
  } else if (request->path == "/info" || request->path == "*") {
    (void)responder->respond(200, "text/plain",
                             request->method + " " + request->path + "?" + request->query +
                                 " x-test=" + std::string(request->header("x-test")) +
                                 " body=" + std::to_string(request->body.size()));
  } else if (request->path == "/hold") {
    {
      const std::lock_guard lock{mutex_};
      held_.push_back(std::move(responder));
    }
    changed_.notify_all();
  } else if (request->path == "/throw") {
    throw std::runtime_error("a fault of the test");
  } else if (request->path != "/drop") {
    (void)responder->respond(404, "text/plain", "");
  }
}

std::shared_ptr<http_responder> site::next_held() {
  std::unique_lock lock{mutex_};
  if (!changed_.wait_for(lock, patience, [this] { return !held_.empty(); })) return nullptr;
  auto oldest = std::move(held_.front());
  held_.pop_front();
  return oldest;
}

raw_client::raw_client(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd_ >= 0 && ::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) return;
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

raw_client::~raw_client() {
  if (fd_ >= 0) ::close(fd_);
}

raw_client::raw_client(raw_client&& other) noexcept
    : was_reset(other.was_reset),
      fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)) {}

bool raw_client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!wait_for(fd_, POLLOUT)) return false;
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool raw_client::fill() {
  if (!wait_for(fd_, POLLIN)) return false;
  char piece[16384];
  const ssize_t count = ::recv(fd_, piece, sizeof piece, 0);
  if (count < 0) was_reset = true;
  if (count <= 0) return false;
  buffer_.append(piece, static_cast<size_t>(count));
  return true;
}

std::string raw_client::read_until(std::string_view mark) {
  size_t from = 0;
  while (true) {
    const size_t at = buffer_.find(mark, from);
    if (at != std::string::npos) {
      std::string out = buffer_.substr(0, at + mark.size());
      buffer_.erase(0, out.size());
      return out;
    }
    from = buffer_.size() < mark.size() ? 0 : buffer_.size() - mark.size();
    if (!fill()) return std::exchange(buffer_, {});
  }
}

std::string raw_client::read_to_end() {
  while (fill()) {
  }
  return std::exchange(buffer_, {});
}

std::string raw_client::read_answer() {
  std::string head = read_until("\r\n\r\n");
  const size_t at = head.find("content-length: ");
  if (at == std::string::npos) return head;
  const size_t size = std::stoul(head.substr(at + 16));
  while (buffer_.size() < size && fill()) {
  }
  const std::string body = buffer_.substr(0, size);
  buffer_.erase(0, size);
  return head + body;
}

void raw_client::shutdown_write() {
  ::shutdown(fd_, SHUT_WR);
}

void raw_client::reset() {
  const linger now{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(fd_);
  fd_ = -1;
}

void raw_client::small_receive_window() {
  const int bytes = 4096;
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

std::string get(std::string_view path, std::string_view more_headers) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n" + std::string(more_headers) +
         "\r\n";
}

std::string post(std::string_view path, std::string_view body) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         std::string(body);
}

}  // namespace deepinfer::test
