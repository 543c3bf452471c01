#include "actors/bench/load_client.hpp"

#include "actors/bench/known_protocol.hpp"
#include "actors/bench/null_model.hpp"
#include "runtime/http/client.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

namespace deepinfer::bench {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds patience{20};  ///< for open answers behind the measured time
constexpr std::string_view ok_head = "HTTP/1.1 200";
constexpr std::string_view last_chunk = "\r\n0\r\n\r\n";

struct connection {
  int socket = -1;
  size_t tokens = 0;  ///< of the present answer
  steady_clock::time_point asked;
  std::string text;   ///< of the present answer
  size_t looked = 0;  ///< how far stamps have been read

  connection() = default;
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection() {
    if (socket >= 0) ::close(socket);
  }
};

class epoll_client final : public load_client {
public:
  ~epoll_client() override {
    if (epoll_ >= 0) ::close(epoll_);
  }

  result<void> open(const options& what) {
    const auto where = parse_url(what.address);
    if (!where) return where.error();
    tokens_ = what.tokens;
    request_ = "POST /v1/chat/completions HTTP/1.1\r\nhost: " + what.address +
               "\r\ncontent-type: application/json\r\ncontent-length: " +
               std::to_string(what.body.size()) + "\r\n\r\n" + what.body;
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; i < what.connections; ++i)
      if (auto made = add(*where); !made) return made;
    return {};
  }

  result<load_result> run(std::chrono::milliseconds time) override {
    result_ = {};
    const auto begin = steady_clock::now();
    end_ = begin + time;
    if (auto asked = ask_all(); !asked) return asked.error();
    while (busy_ > 0)
      if (auto turned = turn(end_ + patience); !turned) return turned.error();
    result_.seconds = std::chrono::duration<double>(time).count();
    return std::move(result_);
  }

  result<void> hold() override {
    const auto deadline = steady_clock::now() + patience;
    end_ = steady_clock::now();  // nobody asks twice
    with_token_ = 0;
    if (auto asked = ask_all(); !asked) return asked;
    while (with_token_ < connections_.size())
      if (auto turned = turn(deadline); !turned) return turned;
    return {};
  }

private:
  result<void> add(const http_url& where) {
    auto made = std::make_unique<connection>();
    made->socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(where.port);
    ::inet_pton(AF_INET, where.host.c_str(), &address.sin_addr);
    const int yes = 1;
    if (::connect(made->socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::setsockopt(made->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0)
      return failure{error_code::unreachable, "no connection to " + where.host};
    epoll_event interest{};
    interest.events = EPOLLIN;
    interest.data.ptr = made.get();
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, made->socket, &interest) != 0)
      return failure{error_code::no_capacity, "no room in epoll"};
    connections_.push_back(std::move(made));
    return {};
  }

  result<void> ask_all() {
    for (const auto& c : connections_)
      if (auto asked = ask(*c); !asked) return asked;
    return {};
  }

  result<void> ask(connection& c) {
    c.text.clear();
    c.looked = 0;
    c.tokens = 0;
    c.asked = steady_clock::now();
    // A request is far shorter than a socket's buffer: it goes whole or not at all.
    const ssize_t sent = ::send(c.socket, request_.data(), request_.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(request_.size()))
      return failure{error_code::unreachable, "a connection takes no request"};
    ++busy_;
    return {};
  }

  result<void> turn(steady_clock::time_point deadline) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0)
      return failure{error_code::deadline_exceeded, "an answer does not come to its end"};
    std::array<epoll_event, 64> events;
    const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                                   static_cast<int>(left.count()));
    for (int i = 0; i < count; ++i)
      if (auto done = take(*static_cast<connection*>(events[static_cast<size_t>(i)].data.ptr));
          !done)
        return done;
    return {};
  }

  result<void> take(connection& c) {
    std::array<char, 16384> piece;
    const ssize_t got = ::recv(c.socket, piece.data(), piece.size(), 0);
    if (got <= 0) return failure{error_code::unreachable, "an answer was cut: " + c.text};
    c.text.append(piece.data(), static_cast<size_t>(got));
    read_stamps(c);
    if (c.text.size() >= ok_head.size() && !c.text.starts_with(ok_head))
      return failure{error_code::internal, "refused: " + c.text.substr(0, 400)};
    if (!c.text.ends_with(last_chunk)) return {};
    if (c.tokens != tokens_)
      return failure{error_code::internal, std::to_string(c.tokens) + " tokens came instead of " +
                                               std::to_string(tokens_) + ": " + c.text};
    --busy_;
    if (steady_clock::now() >= end_) return {};
    ++result_.requests;
    return ask(c);
  }

  void read_stamps(connection& c) {
    const auto now = steady_clock::now();
    const int32_t stamp = stamp_now();
    for (;;) {
      const size_t begin = c.text.find(stamp_mark, c.looked);
      const size_t end = begin == std::string::npos ? begin : c.text.find(stamp_mark, begin + 1);
      if (end == std::string::npos) {
        c.looked = begin == std::string::npos ? c.text.size() : begin;
        return;
      }
      int32_t then = 0;
      std::from_chars(c.text.data() + begin + 1, c.text.data() + end, then);
      result_.token_age_us.push_back(stamp_age(then, stamp));
      if (c.tokens++ == 0) {
        ++with_token_;
        result_.first_token_us.push_back(
            std::chrono::duration<double, std::micro>(now - c.asked).count());
      }
      c.looked = end + 1;
    }
  }

  std::string request_;
  int epoll_ = -1;
  std::vector<std::unique_ptr<connection>> connections_;
  size_t tokens_ = 0;
  size_t busy_ = 0;
  size_t with_token_ = 0;
  steady_clock::time_point end_;
  load_result result_;
};

}  // namespace

result<std::unique_ptr<load_client>> load_client::connect(const options& what) {
  auto out = std::make_unique<epoll_client>();
  if (auto opened = out->open(what); !opened) return opened.error();
  return std::unique_ptr<load_client>{std::move(out)};
}

}  // namespace deepinfer::bench
