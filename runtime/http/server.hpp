#pragma once

#include "proto/types/result.hpp"
#include "runtime/http/http_config.hpp"
#include "runtime/http/message.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

/// HTTP/1.1 for gateway, console and metrics: one listener, one I/O thread of its own, answers
/// from any thread. Nothing of Boost is visible here.
namespace deepinfer {

/// The answer to one request, to be given whole or as a stream. Any thread may call, at any time,
/// also after the client has gone or the server has stopped: calls then fail with `unreachable`.
/// A call out of order (two answers, a write after `finish`) fails with `invalid_argument`.
///
/// Dropping the last reference without an answer sends 500; dropping it within a stream cuts the
/// connection, so that the client cannot take the stream for complete.
class http_responder {
public:
  virtual ~http_responder() = default;

  /// The whole answer.
  virtual result<void> respond(uint16_t status,
                               std::string_view content_type,
                               std::string body,
                               const http_headers& extra = {}) = 0;

  /// Starts a streamed answer; its head goes out at once. For "text/event-stream" the headers that
  /// keep proxies from buffering are added.
  virtual result<void> begin_stream(uint16_t status,
                                    std::string_view content_type,
                                    const http_headers& extra = {}) = 0;
  /// Queues `chunk` and returns the unsent bytes of this stream. `no_capacity`: over
  /// `pending_write_bytes`; nothing was queued, `on_drain` tells when to try again. `too_large`:
  /// longer than that bound by itself. The bound is soft only for the framing around chunks.
  virtual result<size_t> write(std::string chunk) = 0;
  /// The stream is complete.
  virtual result<void> finish() = 0;

  /// Called on the I/O thread each time the unsent bytes, having been above `low_water_bytes` or
  /// having refused a write, are down to that mark again. Must not block.
  virtual void on_drain(std::function<void()> callback) = 0;
  /// Called once, on the I/O thread, if the answer can no longer reach the client: it closed or
  /// half-closed its side, took no byte for `write_stall_timeout`, or the server stops. If that
  /// has happened already, called now, on the caller's thread. Never called once the answer is out.
  virtual void on_closed(std::function<void(const failure&)> callback) = 0;

  [[nodiscard]] virtual size_t pending_bytes() const = 0;
};

/// Called on the I/O thread with each complete request. Must not block: hand the work on.
using http_handler = std::function<void(std::shared_ptr<const http_request> request,
                                        std::shared_ptr<http_responder> responder)>;

/// Numbers since the start, and the state now.
struct http_stats {
  uint64_t open_connections = 0;
  uint64_t open_answers = 0;  ///< requests being answered
  uint64_t body_bytes = 0;    ///< of open requests
  uint64_t accepted = 0;
  uint64_t refused_connections = 0;  ///< over `max_connections`
  uint64_t accept_errors = 0;        ///< out of file descriptors or memory
  uint64_t requests = 0;
  uint64_t responses[5] = {};      ///< by class: 1xx, 2xx, ...
  uint64_t rejected_requests = 0;  ///< answered by the server itself: malformed, over a limit
  uint64_t timeouts = 0;           ///< header, body, idle
  uint64_t stalled_writes = 0;
  uint64_t clients_gone = 0;    ///< while an answer was open
  uint64_t refused_writes = 0;  ///< `write` answered with `no_capacity`
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
};

/// Words what the server itself refuses (malformed, over a limit, too late): the shape of errors is
/// the API's. `path` is as the client wrote it, empty when it did not come. Called on the I/O
/// thread; must not block.
using http_refusal_writer =
    std::function<http_refusal(const http_problem& problem, std::string_view path)>;

class http_server {
public:
  virtual ~http_server() = default;  ///< stops

  /// Starts to serve. Once.
  virtual result<void> start() = 0;
  /// Takes no more connections, closes quiet ones, gives open answers `drain_timeout`, closes them
  /// then, and joins the I/O thread. From any thread but the I/O thread; again does nothing.
  virtual void stop() = 0;
  /// "host:port" it listens on.
  [[nodiscard]] virtual std::string address() const = 0;
  [[nodiscard]] virtual http_stats stats() const = 0;
};

/// Binds `config.listen`: `invalid_argument` for an address that is none, `unreachable` for one
/// that cannot be had (the detail says why and what to do). Without `refusals` they are
/// `problem_json`.
[[nodiscard]] result<std::unique_ptr<http_server>> make_http_server(
    const http_config& config, http_handler handler, http_refusal_writer refusals = {});

}  // namespace deepinfer
