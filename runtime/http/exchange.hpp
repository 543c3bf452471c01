#pragma once

#include "runtime/http/response_text.hpp"
#include "runtime/http/server.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace deepinfer::http {

class exchange;
class session;
struct counters;

/// A piece of an answer on its way to the socket.
struct out_piece {
  std::string bytes;
  size_t payload = 0;  ///< how much of it counts against `pending_write_bytes`
};

/// Carries "this exchange has something for its connection" to the I/O thread.
class wake_queue {
public:
  virtual ~wake_queue() = default;
  virtual void wake(std::shared_ptr<exchange> target) = 0;
};

/// What an exchange must know of its request and its listener.
struct exchange_traits {
  bool is_head = false;
  bool is_http_10 = false;
  bool keeps_alive = true;
  uint64_t pending_write_bytes = 0;
  uint64_t low_water_bytes = 0;
};

/// One request's answer: where answering threads and the I/O thread meet. The answering side only
/// changes state under the mutex and wakes the I/O thread once; the I/O side collects everything
/// that has gathered since, so that many small writes leave in one system call.
class exchange final : public http_responder, public std::enable_shared_from_this<exchange> {
public:
  exchange(session* owner,
           const exchange_traits& traits,
           std::shared_ptr<wake_queue> waker,
           std::shared_ptr<counters> counts);

  /// The handle a handler gets: when its last copy goes, an unfinished answer is abandoned.
  [[nodiscard]] std::shared_ptr<http_responder> handle();

  // http_responder, any thread
  result<void> respond(uint16_t status,
                       std::string_view content_type,
                       std::string body,
                       const http_headers& extra) override;
  result<void> begin_stream(uint16_t status,
                            std::string_view content_type,
                            const http_headers& extra) override;
  result<size_t> write(std::string chunk) override;
  result<void> finish() override;
  void on_drain(std::function<void()> callback) override;
  void on_closed(std::function<void(const failure&)> callback) override;
  [[nodiscard]] size_t pending_bytes() const override;

  // I/O thread only
  [[nodiscard]] session* owner() const { return owner_; }
  /// Between these two the handler runs and the I/O thread looks by itself: no wake-ups.
  void pause_wakes();
  void resume_wakes();
  struct collected {
    bool is_ended = false;    ///< nothing more will come
    bool is_aborted = false;  ///< the stream was dropped half-way: cut the connection
    bool closes = false;
    uint16_t status = 0;  ///< set once, with the head
  };
  /// Moves what has gathered to `out`, framed.
  collected collect(std::vector<out_piece>& out);
  /// `payload` bytes have left.
  void sent(size_t payload);
  /// The answer is out: callbacks are dropped uncalled.
  void complete();
  /// The answer cannot arrive any more.
  void close(const failure& why);

private:
  enum class phase : uint8_t { fresh, streaming, ended };

  result<void> check_open(phase wanted) const;
  void abandon();
  void wake();

  session* owner_;
  const exchange_traits traits_;
  const std::shared_ptr<wake_queue> waker_;
  const std::shared_ptr<counters> counts_;

  mutable std::mutex mutex_;
  phase phase_ = phase::fresh;
  bool is_gone_ = false;  ///< closed or complete: nothing reaches the client
  bool is_aborted_ = false;
  bool is_awake_ = false;  ///< the I/O thread knows already
  bool is_paused_ = false;
  bool wants_drain_ = false;
  bool closes_ = false;
  body_framing framing_ = body_framing::length;
  uint16_t status_ = 0;
  std::string head_;
  std::vector<std::string> chunks_;
  size_t queued_ = 0;   ///< bytes in `chunks_`
  size_t pending_ = 0;  ///< the same and what the socket has not taken yet
  bool end_written_ = false;
  std::optional<failure> reason_;
  std::shared_ptr<std::function<void()>> on_drain_;  ///< shared: called outside the mutex
  std::function<void(const failure&)> on_closed_;
};

}  // namespace deepinfer::http
