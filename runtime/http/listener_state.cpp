#include "runtime/http/listener_state.hpp"

#include "runtime/http/session.hpp"

#include <boost/asio/post.hpp>

#include <utility>

namespace deepinfer::http {

listener_state::listener_state(const http_config& settings,
                               http_handler on_request,
                               http_refusal_writer on_refusal)
    : config(settings), handler(std::move(on_request)), refusals(std::move(on_refusal)) {}

void listener_state::wake(std::shared_ptr<exchange> target) {
  const std::lock_guard lock{mutex_};
  woken_.push_back(std::move(target));
  if (is_posted_) return;
  is_posted_ = true;
  boost::asio::post(io, [self = shared_from_this()] { self->serve_woken(); });
}

void listener_state::serve_woken() {
  std::vector<std::shared_ptr<exchange>> woken;
  {
    const std::lock_guard lock{mutex_};
    woken.swap(woken_);
    is_posted_ = false;
  }
  now = clock::now();
  for (const auto& target : woken)
    if (session* owner = target->owner()) owner->pump();
}

http_stats counters::snapshot() const {
  const auto read = [](const count& c) { return c.load(std::memory_order_relaxed); };
  http_stats s;
  s.open_connections = read(open_connections);
  s.open_answers = read(open_answers);
  s.body_bytes = read(body_bytes);
  s.accepted = read(accepted);
  s.refused_connections = read(refused_connections);
  s.accept_errors = read(accept_errors);
  s.requests = read(requests);
  for (size_t i = 0; i < responses.size(); ++i) s.responses[i] = read(responses[i]);
  s.rejected_requests = read(rejected_requests);
  s.timeouts = read(timeouts);
  s.stalled_writes = read(stalled_writes);
  s.clients_gone = read(clients_gone);
  s.refused_writes = read(refused_writes);
  s.bytes_in = read(bytes_in);
  s.bytes_out = read(bytes_out);
  return s;
}

}  // namespace deepinfer::http
