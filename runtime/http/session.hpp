#pragma once

#include "runtime/http/exchange.hpp"
#include "runtime/http/listener_state.hpp"
#include "runtime/http/request_reader.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::http {

/// One connection, on the I/O thread only. Requests are served one after the other; what a client
/// sends ahead is held, bounded, and a read stays pending while an answer is open, because that is
/// how the client's leaving is noticed at once.
class session final : public std::enable_shared_from_this<session> {
public:
  using clock = listener_state::clock;

  session(listener_state& shared, boost::asio::ip::tcp::socket socket, uint64_t id);
  ~session();

  /// Begins to serve.
  void open();
  /// Answers with `problem` without reading, and closes.
  void refuse(const http_problem& problem);
  /// The exchange has something to send.
  void pump();
  /// Acts on deadlines that are over.
  void on_tick(clock::time_point now);
  [[nodiscard]] bool is_expired(clock::time_point now) const {
    return now >= deadline_ || now >= write_deadline_;
  }
  /// The server stops: ends when quiet, otherwise after the open answer.
  void drain();
  /// Ends at once; an open answer learns why.
  void close(const failure& why);

private:
  enum class phase : uint8_t {
    reading,    ///< a request, or waiting for one
    answering,  ///< the handler has it
    closing,    ///< last bytes are on their way
    lingering,  ///< all sent, our side shut: waits for the client's end
    closed,
  };
  enum class read_stage : uint8_t { quiet, header, body };
  static constexpr clock::time_point never = clock::time_point::max();

  // reading (session.cpp)
  void arm_read();
  void on_readable();
  void take(std::string_view bytes);
  void discard(size_t bytes);
  void advance();
  [[nodiscard]] bool advance_reading();
  void begin_reading();
  void set_read_deadline();
  void invite_body();
  [[nodiscard]] bool count_body();
  void release_body();
  void dispatch();
  /// By value: the problem may lie in the reader, which ends here.
  void reject(http_problem problem);

  // answering (session_write.cpp)
  [[nodiscard]] bool advance_answering();
  void collect();
  void end_answer();
  void flush();
  [[nodiscard]] bool write_some();
  void consume(size_t bytes);
  void arm_write();
  void linger();
  void reset_hard(const failure& why);

  listener_state& shared_;
  boost::asio::ip::tcp::socket socket_;
  const uint64_t id_;
  std::string remote_;

  phase phase_ = phase::reading;
  bool is_read_armed_ = false;
  bool is_write_armed_ = false;
  bool is_advancing_ = false;
  bool has_fresh_bytes_ = false;  ///< `held_` grew since the reader saw it
  bool has_continued_ = false;    ///< 100 was sent for this request
  read_stage stage_ = read_stage::quiet;
  std::optional<request_reader> reader_;
  std::string held_;  ///< bytes received and not yet used
  uint64_t counted_body_ = 0;
  uint64_t discarded_bytes_ = 0;
  std::shared_ptr<exchange> exchange_;
  exchange::collected answer_;
  std::vector<out_piece> out_;
  size_t out_front_ = 0;   ///< first piece not sent
  size_t out_offset_ = 0;  ///< bytes of it that are
  clock::time_point deadline_ = never;
  clock::time_point write_deadline_ = never;
};

}  // namespace deepinfer::http
