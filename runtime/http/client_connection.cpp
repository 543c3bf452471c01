#include "runtime/http/client_connection.hpp"

#include "runtime/http/answer_reader.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/error.hpp>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace deepinfer::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost_error = boost::system::error_code;

const failure too_late{error_code::deadline_exceeded, "the server did not answer in time"};

}  // namespace

client_connection::client_connection(std::string host,
                                     uint16_t port,
                                     const http_client_config& config)
    : host_(std::move(host)), port_(port), config_(config) {}

std::string client_connection::host_header() const {
  const std::string port = std::to_string(port_);
  if (host_.find(':') != std::string::npos)
    return std::string("[").append(host_).append("]:") + port;
  return host_ + ":" + port;
}

failure client_connection::broken(std::string_view what) const {
  return {error_code::unreachable, host_header() + ": " + std::string(what)};
}

void client_connection::disconnect() {
  boost_error ignored;
  socket_.close(ignored);
}

result<void> client_connection::wait(direction what, clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()).count();
    if (left <= 0) return too_late;
    pollfd one{socket_.native_handle(),
               static_cast<short>(what == direction::in ? POLLIN : POLLOUT), 0};
    const int ready = ::poll(&one, 1, static_cast<int>(std::min<int64_t>(left, 1 << 30)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return broken("poll failed");
  }
}

result<void> client_connection::connect_to(const tcp::endpoint& at, clock::time_point deadline) {
  boost_error error;
  socket_.open(at.protocol(), error);
  if (error) return broken(error.message());
  socket_.non_blocking(true, error);
  socket_.set_option(tcp::no_delay(true), error);
  // Asio's own connect would wait without a deadline
  if (::connect(socket_.native_handle(), at.data(), static_cast<socklen_t>(at.size())) == 0)
    return {};
  if (errno != EINPROGRESS)
    return broken(boost_error(errno, asio::error::get_system_category()).message());
  if (auto ready = wait(direction::out, deadline); !ready) return ready;
  int status = 0;
  socklen_t size = sizeof status;
  ::getsockopt(socket_.native_handle(), SOL_SOCKET, SO_ERROR, &status, &size);
  if (status != 0) return broken(boost_error(status, asio::error::get_system_category()).message());
  return {};
}

result<void> client_connection::connect(clock::time_point deadline) {
  deadline = std::min(deadline, clock::now() + config_.connect_timeout);
  std::vector<tcp::endpoint> candidates;
  boost_error error;
  const auto numeric = asio::ip::make_address(host_, error);
  if (!error) {
    candidates.emplace_back(numeric, port_);
  } else {
    tcp::resolver resolver{io_};
    for (const auto& found : resolver.resolve(host_, std::to_string(port_), error))
      candidates.push_back(found.endpoint());
    if (candidates.empty()) return broken("no address is known for this name");
  }
  result<void> last;
  for (const tcp::endpoint& at : candidates) {
    last = connect_to(at, deadline);
    if (last) return last;
    disconnect();
  }
  return last;
}

result<void> client_connection::send(std::string_view text, clock::time_point deadline) {
  while (!text.empty()) {
    boost_error error;
    const size_t count = socket_.write_some(asio::buffer(text), error);
    text.remove_prefix(count);
    if (error == asio::error::would_block) {
      if (auto ready = wait(direction::out, deadline); !ready) return ready;
    } else if (error == asio::error::broken_pipe || error == asio::error::connection_reset) {
      return {};  // the server may have answered before it closed (413): read that
    } else if (error) {
      return broken(error.message());
    }
  }
  return {};
}

result<size_t> client_connection::read_some(clock::time_point deadline) {
  const auto quiet_deadline = std::min(deadline, clock::now() + config_.quiet_timeout);
  while (true) {
    boost_error error;
    const size_t count = socket_.read_some(asio::buffer(buffer_), error);
    if (count > 0) return count;
    if (error == asio::error::eof) return size_t{0};
    if (error != asio::error::would_block) return broken(error.message());
    if (auto ready = wait(direction::in, quiet_deadline); !ready) return ready.error();
  }
}

result<http_answer> client_connection::receive(bool is_head,
                                               clock::time_point deadline,
                                               const http_body_sink& sink) {
  answer_reader reader{config_.header_bytes, is_head, sink};
  while (!reader.is_done()) {
    const auto count = read_some(deadline);
    if (!count) return count.error();
    if (*count == 0) {
      if (reader.end_of_stream()) break;
      return broken("the connection closed before the end of the answer");
    }
    has_received_ = true;
    if (auto fed = reader.feed({buffer_.data(), *count}); !fed) return fed.error();
  }
  if (!reader.keeps_alive()) disconnect();
  return reader.take();
}

result<http_answer> client_connection::exchange(std::string_view text,
                                                bool is_head,
                                                clock::time_point deadline,
                                                const http_body_sink& sink) {
  has_received_ = false;
  if (!is_open()) {
    if (auto done = connect(deadline); !done) {
      disconnect();
      return done.error();
    }
  }
  if (auto done = send(text, deadline); !done) {
    disconnect();
    return done.error();
  }
  auto answer = receive(is_head, deadline, sink);
  if (!answer) disconnect();
  return answer;
}

}  // namespace deepinfer::http
