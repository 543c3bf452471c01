#include "runtime/http/session.hpp"

#include "runtime/http/response_text.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/system/error_code.hpp>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace deepinfer::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr http_problem timed_out{408, "invalid_request_error", "request_timeout",
                                 "The request did not arrive in time."};
constexpr http_problem too_many_bodies{
    503, "overloaded_error", "overloaded",
    "The server holds too many large requests; try again later."};

const failure client_gone{error_code::unreachable, "the client has closed the connection"};
const failure client_stalled{error_code::deadline_exceeded, "the client has stopped reading"};

std::string print_endpoint(const tcp::socket& socket) {
  boost::system::error_code error;
  const tcp::endpoint peer = socket.remote_endpoint(error);
  if (error) return "unknown";
  const std::string address = peer.address().to_string(error);
  const std::string port = std::to_string(peer.port());
  return peer.address().is_v6() ? "[" + address + "]:" + port : address + ":" + port;
}

void set_option(const tcp::socket& socket, int level, int name, int value) {
  // each is an improvement, not a condition: a kernel without it serves too
  (void)::setsockopt(const_cast<tcp::socket&>(socket).native_handle(), level, name, &value,
                     sizeof value);
}

void tune(tcp::socket& socket, const http_config& config) {
  constexpr int unsent_in_kernel = 128 << 10;  // beyond it a write waits: else megabytes hide there
  boost::system::error_code ignored;
  socket.non_blocking(true, ignored);
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, unsent_in_kernel);
  // a machine that vanished sends no FIN: bytes it does not acknowledge, or probes, tell
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT,
             static_cast<int>(config.write_stall_timeout.count()));
}

}  // namespace

session::session(listener_state& shared, tcp::socket socket, uint64_t id)
    : shared_(shared), socket_(std::move(socket)), id_(id), remote_(print_endpoint(socket_)) {
  tune(socket_, shared_.config);
  counters::add(shared_.counts->open_connections);
}

session::~session() {
  counters::subtract(shared_.counts->open_connections);
}

void session::open() {
  begin_reading();
  arm_read();
}

void session::refuse(const http_problem& problem) {
  reject(problem);
  arm_read();
}

void session::pump() {
  const auto self = shared_from_this();
  advance();
}

void session::drain() {
  const auto self = shared_from_this();
  if (phase_ == phase::reading && stage_ == read_stage::quiet) linger();
}

void session::close(const failure& why) {
  if (phase_ == phase::closed) return;
  const auto self = shared_from_this();
  phase_ = phase::closed;
  boost::system::error_code ignored;
  socket_.close(ignored);
  release_body();
  shared_.sessions.erase(id_);
  if (!exchange_) return;
  if (why.code == error_code::unreachable) counters::add(shared_.counts->clients_gone);
  counters::subtract(shared_.counts->open_answers);
  std::exchange(exchange_, nullptr)->close(why);
}

void session::on_tick(clock::time_point now) {
  const auto self = shared_from_this();
  if (now >= write_deadline_) {
    counters::add(shared_.counts->stalled_writes);
    return reset_hard(client_stalled);
  }
  if (now < deadline_) return;
  if (phase_ != phase::reading) return close(client_gone);
  counters::add(shared_.counts->timeouts);
  if (stage_ == read_stage::quiet) return linger();
  reject(timed_out);
}

void session::arm_read() {
  if (is_read_armed_ || phase_ == phase::closed) return;
  // full: TCP holds the client back; its leaving is then noticed by the next write
  if (phase_ == phase::answering && held_.size() >= shared_.config.pipelined_bytes) return;
  is_read_armed_ = true;
  const auto ready = [self = shared_from_this()](const boost::system::error_code& error) {
    self->is_read_armed_ = false;
    if (error || self->phase_ == phase::closed) return;
    self->shared_.now = clock::now();
    self->on_readable();
  };
  socket_.async_wait(tcp::socket::wait_read, ready);
}

void session::on_readable() {
  constexpr int reads_per_turn = 4;  // then others have theirs
  for (int i = 0; i < reads_per_turn; ++i) {
    size_t room = shared_.scratch.size();
    if (phase_ == phase::answering) {
      if (held_.size() >= shared_.config.pipelined_bytes) break;
      room = std::min<size_t>(room, shared_.config.pipelined_bytes - held_.size());
    }
    boost::system::error_code error;
    const size_t count = socket_.read_some(asio::buffer(shared_.scratch.data(), room), error);
    if (error == asio::error::would_block) break;
    if (error) return close(client_gone);  // its end, or a reset
    counters::add(shared_.counts->bytes_in, count);
    take({shared_.scratch.data(), count});
    if (phase_ == phase::closed) return;
    if (count < room) break;
  }
  arm_read();
}

void session::take(std::string_view bytes) {
  if (phase_ == phase::closing || phase_ == phase::lingering) return discard(bytes.size());
  if (phase_ == phase::reading && held_.empty()) {
    held_.assign(bytes.substr(reader_->feed(bytes)));
  } else {
    held_.append(bytes);
    has_fresh_bytes_ = true;
  }
  advance();
}

void session::discard(size_t bytes) {
  // bytes left unread at close would make the kernel reset the connection and drop our answer
  discarded_bytes_ += bytes;
  if (discarded_bytes_ > shared_.config.body_bytes + shared_.config.header_bytes)
    reset_hard(client_gone);
}

void session::advance() {
  if (is_advancing_) return;  // called from within: the loop below goes on
  is_advancing_ = true;
  bool goes_on = true;
  while (goes_on) {
    if (phase_ == phase::reading) {
      goes_on = advance_reading();
    } else {
      goes_on = phase_ == phase::answering && advance_answering();
    }
  }
  is_advancing_ = false;
}

bool session::advance_reading() {
  if (has_fresh_bytes_) {
    has_fresh_bytes_ = false;
    held_.erase(0, reader_->feed(held_));
  }
  if (reader_->problem()) {
    reject(*reader_->problem());
    return false;
  }
  if (!count_body()) {
    reject(too_many_bodies);
    return false;
  }
  if (reader_->is_done()) {
    dispatch();
    return true;
  }
  invite_body();
  if (phase_ == phase::reading) set_read_deadline();
  return false;
}

void session::begin_reading() {
  reader_.emplace(reader_limits{shared_.config.header_bytes, shared_.config.body_bytes});
  phase_ = phase::reading;
  has_continued_ = false;
  has_fresh_bytes_ = !held_.empty();
  if (held_.empty()) std::string{}.swap(held_);  // a quiet connection holds no memory
  deadline_ = never;
  set_read_deadline();
}

void session::set_read_deadline() {
  read_stage stage = read_stage::quiet;
  if (reader_->is_header_done()) {
    stage = read_stage::body;
  } else if (reader_->is_started() || !held_.empty()) {
    stage = read_stage::header;
  }
  // a stage has one deadline from its beginning: a byte now and then does not prolong it
  if (deadline_ != never && stage_ == stage) return;
  stage_ = stage;
  const http_config& c = shared_.config;
  deadline_ = shared_.now + (stage == read_stage::quiet    ? c.idle_timeout
                             : stage == read_stage::header ? c.header_timeout
                                                           : c.body_timeout);
}

void session::invite_body() {
  if (!reader_->is_header_done() || !reader_->expects_continue() || has_continued_) return;
  has_continued_ = true;
  if (reader_->body_bytes() > 0) return;
  counters::add(shared_.counts->responses[0]);
  out_.push_back({"HTTP/1.1 100 Continue\r\n\r\n", 0});
  flush();
}

bool session::count_body() {
  const uint64_t grown = reader_->body_bytes() - counted_body_;
  if (grown == 0) return true;
  counted_body_ += grown;
  auto& total = shared_.counts->body_bytes;
  return total.fetch_add(grown, std::memory_order_relaxed) + grown <=
         shared_.config.total_body_bytes;
}

void session::release_body() {
  counters::subtract(shared_.counts->body_bytes, std::exchange(counted_body_, 0));
}

void session::dispatch() {
  exchange_traits traits{.is_http_10 = reader_->is_http_10(),
                         .keeps_alive = reader_->keeps_alive() && !shared_.is_draining,
                         .pending_write_bytes = shared_.config.pending_write_bytes,
                         .low_water_bytes = shared_.config.low_water_bytes};
  auto request = std::make_shared<http_request>(reader_->take());
  request->remote = remote_;
  request->connection = id_;
  traits.is_head = request->method == "HEAD";
  const auto open =
      std::make_shared<exchange>(this, traits, shared_.shared_from_this(), shared_.counts);
  exchange_ = open;
  phase_ = phase::answering;
  deadline_ = never;
  counters::add(shared_.counts->requests);
  counters::add(shared_.counts->open_answers);
  open->pause_wakes();
  try {
    shared_.handler(std::move(request), open->handle());
  } catch (const std::exception&) {
    // Ours do not throw, but memory that runs out in one request must not end the others. The
    // handle went with the stack: the answer counts as abandoned, the client gets 500.
  }
  open->resume_wakes();
}

void session::reject(http_problem problem) {
  const std::string path{reader_ ? reader_->target_path() : std::string_view{}};
  const http_refusal refusal =
      shared_.refusals ? shared_.refusals(problem, path) : http_refusal{problem_json(problem), {}};
  counters::add(shared_.counts->rejected_requests);
  shared_.counts->add_response(problem.status);
  release_body();
  reader_.reset();
  std::string{}.swap(held_);
  phase_ = phase::closing;
  deadline_ = shared_.now + shared_.config.linger_timeout;
  out_.push_back({refusal_answer(problem.status, refusal), 0});
  flush();
  if (phase_ == phase::closing && out_.empty()) linger();
}

}  // namespace deepinfer::http
