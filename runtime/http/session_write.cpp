// The answering half of a connection: from the exchange to the socket.
#include "runtime/http/session.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/system/error_code.hpp>

#include <array>
#include <span>
#include <utility>

namespace deepinfer::http {

namespace asio = boost::asio;
using asio::ip::tcp;

bool session::advance_answering() {
  // Once a turn: what comes after `collect` wakes us again, and a fast writer does not keep this
  // thread from the other connections. While the socket is full, pieces gather in the exchange and
  // go out together later.
  if (out_.empty()) {
    collect();
    flush();
  }
  if (phase_ != phase::answering || !out_.empty()) return false;
  if (answer_.is_aborted) {
    reset_hard({error_code::internal, "the answer was given up half-way"});
    return false;
  }
  if (!answer_.is_ended) return false;
  end_answer();
  return phase_ == phase::reading && has_fresh_bytes_;
}

void session::collect() {
  answer_ = exchange_->collect(out_);
  if (answer_.status != 0) shared_.counts->add_response(answer_.status);
}

void session::end_answer() {
  counters::subtract(shared_.counts->open_answers);
  release_body();
  std::exchange(exchange_, nullptr)->complete();
  if (answer_.closes || shared_.is_draining) return linger();
  begin_reading();
  arm_read();
}

void session::flush() {
  while (!out_.empty() && !is_write_armed_ && phase_ != phase::closed)
    if (!write_some()) break;
}

bool session::write_some() {
  constexpr size_t most_buffers = 64;  // what Asio passes to one system call
  std::array<asio::const_buffer, most_buffers> buffers;
  size_t count = 0;
  size_t offset = out_offset_;
  for (size_t i = out_front_; i < out_.size() && count < most_buffers; ++i) {
    buffers[count++] = asio::buffer(out_[i].bytes) + offset;
    offset = 0;
  }
  boost::system::error_code error;
  const size_t sent = socket_.write_some(std::span{buffers.data(), count}, error);
  if (error == asio::error::would_block) {
    arm_write();
    return false;
  }
  if (error) {
    close({error_code::unreachable, "the client has closed the connection"});
    return false;
  }
  consume(sent);
  return true;
}

void session::consume(size_t bytes) {
  counters::add(shared_.counts->bytes_out, bytes);
  write_deadline_ = never;
  size_t payload = 0;
  while (bytes > 0) {
    const out_piece& piece = out_[out_front_];
    const size_t left = piece.bytes.size() - out_offset_;
    if (bytes < left) {
      out_offset_ += bytes;
      break;
    }
    bytes -= left;
    payload += piece.payload;
    out_offset_ = 0;
    ++out_front_;
  }
  if (out_front_ == out_.size()) {
    out_.clear();
    out_front_ = 0;
  }
  if (payload > 0 && exchange_) exchange_->sent(payload);
}

void session::arm_write() {
  if (write_deadline_ == never) write_deadline_ = shared_.now + shared_.config.write_stall_timeout;
  is_write_armed_ = true;
  const auto ready = [self = shared_from_this()](const boost::system::error_code& error) {
    self->is_write_armed_ = false;
    if (error || self->phase_ == phase::closed) return;
    self->shared_.now = clock::now();
    self->flush();
    if (self->phase_ == phase::closing && self->out_.empty()) return self->linger();
    self->advance();
  };
  socket_.async_wait(tcp::socket::wait_write, ready);
}

void session::linger() {
  phase_ = phase::lingering;
  deadline_ = shared_.now + shared_.config.linger_timeout;
  reader_.reset();
  std::string{}.swap(held_);
  boost::system::error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  arm_read();
}

void session::reset_hard(const failure& why) {
  // without this the kernel would go on to send what the client must not take for complete
  boost::system::error_code ignored;
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  close(why);
}

}  // namespace deepinfer::http
