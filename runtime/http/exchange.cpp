#include "runtime/http/exchange.hpp"

#include "runtime/http/counters.hpp"

#include <utility>

namespace deepinfer::http {
namespace {

/// Proxies must pass events on at once and store none of them.
void add_event_stream_headers(http_headers& headers) {
  for (const auto& [name, value] :
       {std::pair{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}})
    if (find_header(headers, name).empty()) headers.push_back({name, value});
}

constexpr http_problem no_answer{500, "server_error", "no_answer",
                                 "The server gave up this request without an answer."};

}  // namespace

exchange::exchange(session* owner,
                   const exchange_traits& traits,
                   std::shared_ptr<wake_queue> waker,
                   std::shared_ptr<counters> counts)
    : owner_(owner), traits_(traits), waker_(std::move(waker)), counts_(std::move(counts)) {}

std::shared_ptr<http_responder> exchange::handle() {
  // the session holds the exchange too, so its own count cannot tell when the answerers are gone
  return {this, [self = shared_from_this()](http_responder*) { self->abandon(); }};
}

result<void> exchange::check_open(phase wanted) const {
  if (is_gone_) {
    if (reason_) return *reason_;
    return failure{error_code::invalid_argument, "the answer is complete already"};
  }
  if (phase_ == wanted) return {};
  return failure{error_code::invalid_argument,
                 wanted == phase::fresh   ? "the answer has begun already"
                 : phase_ == phase::ended ? "the answer is complete already"
                                          : "the stream has not begun"};
}

result<void> exchange::respond(uint16_t status,
                               std::string_view content_type,
                               std::string body,
                               const http_headers& extra) {
  auto head = write_head({.status = status,
                          .content_type = content_type,
                          .content_length = body.size(),
                          .closes = !traits_.keeps_alive,
                          .is_http_10 = traits_.is_http_10},
                         extra);
  if (!head) return std::move(head).error();
  const std::lock_guard lock{mutex_};
  if (auto open = check_open(phase::fresh); !open) return open;
  phase_ = phase::ended;
  status_ = status;
  closes_ = !traits_.keeps_alive;
  head_ = *std::move(head);
  if (!traits_.is_head && !is_bodiless(status) && !body.empty()) {
    queued_ = pending_ = body.size();
    chunks_.push_back(std::move(body));
  }
  wake();
  return {};
}

result<void> exchange::begin_stream(uint16_t status,
                                    std::string_view content_type,
                                    const http_headers& extra) {
  http_headers headers = extra;
  if (content_type.starts_with("text/event-stream")) add_event_stream_headers(headers);
  const body_framing framing =
      traits_.is_http_10 ? body_framing::until_close : body_framing::chunked;
  const bool closes = !traits_.keeps_alive || framing == body_framing::until_close;
  auto head = write_head({.status = status,
                          .content_type = content_type,
                          .framing = framing,
                          .closes = closes,
                          .is_http_10 = traits_.is_http_10},
                         headers);
  if (!head) return std::move(head).error();
  if (is_bodiless(status))
    return failure{error_code::invalid_argument, "an answer of this status has no body to stream"};
  const std::lock_guard lock{mutex_};
  if (auto open = check_open(phase::fresh); !open) return open;
  phase_ = phase::streaming;
  status_ = status;
  framing_ = framing;
  closes_ = closes;
  head_ = *std::move(head);
  wake();
  return {};
}

result<size_t> exchange::write(std::string chunk) {
  const std::lock_guard lock{mutex_};
  if (auto open = check_open(phase::streaming); !open) return open.error();
  if (chunk.size() > traits_.pending_write_bytes)
    return failure{error_code::too_large,
                   "a piece of a stream must not exceed pending_write_bytes"};
  if (pending_ + chunk.size() > traits_.pending_write_bytes) {
    wants_drain_ = true;
    counts_->refused_writes.fetch_add(1, std::memory_order_relaxed);
    return failure{error_code::no_capacity, "the client reads too slowly: " +
                                                std::to_string(pending_) + " bytes are unsent"};
  }
  // an empty chunk would read as the end of the body
  if (chunk.empty() || traits_.is_head) return pending_;
  queued_ += chunk.size();
  pending_ += chunk.size();
  if (pending_ > traits_.low_water_bytes) wants_drain_ = true;
  chunks_.push_back(std::move(chunk));
  wake();
  return pending_;
}

result<void> exchange::finish() {
  const std::lock_guard lock{mutex_};
  if (auto open = check_open(phase::streaming); !open) return open;
  phase_ = phase::ended;
  wake();
  return {};
}

// A replaced callback is destroyed outside the lock: it may hold the last handle of this answer.

void exchange::on_drain(std::function<void()> callback) {
  auto fresh = callback ? std::make_shared<std::function<void()>>(std::move(callback)) : nullptr;
  const std::lock_guard lock{mutex_};
  if (!is_gone_) on_drain_.swap(fresh);
}

void exchange::on_closed(std::function<void(const failure&)> callback) {
  std::optional<failure> reason;
  {
    const std::lock_guard lock{mutex_};
    if (!is_gone_) {
      on_closed_.swap(callback);
      return;
    }
    reason = reason_;
  }
  if (reason && callback) callback(*reason);
}

size_t exchange::pending_bytes() const {
  const std::lock_guard lock{mutex_};
  return pending_;
}

void exchange::abandon() {
  bool is_fresh = false;
  {
    const std::lock_guard lock{mutex_};
    if (is_gone_ || phase_ == phase::ended) return;
    is_fresh = phase_ == phase::fresh;
    if (!is_fresh) {
      phase_ = phase::ended;
      is_aborted_ = true;
      wake();
    }
  }
  if (is_fresh) (void)respond(no_answer.status, "application/json", problem_json(no_answer), {});
}

void exchange::wake() {
  if (is_awake_ || is_paused_) return;
  is_awake_ = true;
  waker_->wake(shared_from_this());
}

void exchange::pause_wakes() {
  const std::lock_guard lock{mutex_};
  is_paused_ = true;
}

void exchange::resume_wakes() {
  const std::lock_guard lock{mutex_};
  is_paused_ = false;
}

exchange::collected exchange::collect(std::vector<out_piece>& out) {
  const std::lock_guard lock{mutex_};
  is_awake_ = false;
  collected answer{
      .is_ended = phase_ == phase::ended, .is_aborted = is_aborted_, .closes = closes_};
  if (!head_.empty()) {
    answer.status = status_;
    out.push_back({std::exchange(head_, {}), 0});
  }
  const bool is_chunked = framing_ == body_framing::chunked && !traits_.is_head;
  if (!chunks_.empty()) {
    // all that gathered becomes one chunk: framing costs once per system call, not per event
    if (is_chunked) out.push_back({chunk_size_line(queued_), 0});
    for (std::string& chunk : chunks_) {
      const size_t size = chunk.size();
      out.push_back({std::move(chunk), size});
    }
    chunks_.clear();
    queued_ = 0;
    if (is_chunked) out.push_back({"\r\n", 0});
  }
  if (is_chunked && answer.is_ended && !is_aborted_ && !end_written_) {
    end_written_ = true;
    out.push_back({"0\r\n\r\n", 0});
  }
  return answer;
}

void exchange::sent(size_t payload) {
  std::shared_ptr<std::function<void()>> drained;
  {
    const std::lock_guard lock{mutex_};
    pending_ -= payload;
    if (!wants_drain_ || pending_ > traits_.low_water_bytes || phase_ == phase::ended) return;
    wants_drain_ = false;
    drained = on_drain_;
  }
  if (drained) (*drained)();
}

void exchange::complete() {
  std::shared_ptr<std::function<void()>> drained;
  std::function<void(const failure&)> closed;
  {
    const std::lock_guard lock{mutex_};
    is_gone_ = true;
    owner_ = nullptr;
    // destroyed outside the lock: they may hold the last reference to somebody who calls us
    drained = std::move(on_drain_);
    closed = std::move(on_closed_);
  }
}

void exchange::close(const failure& why) {
  std::shared_ptr<std::function<void()>> drained;
  std::function<void(const failure&)> closed;
  {
    const std::lock_guard lock{mutex_};
    if (is_gone_) return;
    is_gone_ = true;
    owner_ = nullptr;
    reason_ = why;
    chunks_.clear();
    head_.clear();
    queued_ = pending_ = 0;
    drained = std::move(on_drain_);
    closed = std::move(on_closed_);
  }
  if (closed) closed(why);
}

}  // namespace deepinfer::http
