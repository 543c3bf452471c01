#pragma once

#include "runtime/http/counters.hpp"
#include "runtime/http/exchange.hpp"
#include "runtime/http/server.hpp"

#include <boost/asio/io_context.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace deepinfer::http {

class session;

/// What the connections of one listener share. Lives as long as the last answer somebody holds,
/// which may be longer than the server.
class listener_state final : public wake_queue,
                             public std::enable_shared_from_this<listener_state> {
public:
  using clock = std::chrono::steady_clock;

  listener_state(const http_config& settings,
                 http_handler on_request,
                 http_refusal_writer on_refusal);

  /// Any thread. Queues; only the first of a burst posts to the I/O thread.
  void wake(std::shared_ptr<exchange> target) override;

  const http_config config;
  const std::shared_ptr<counters> counts = std::make_shared<counters>();
  boost::asio::io_context io{1};

  // I/O thread only
  http_handler handler;
  http_refusal_writer refusals;  ///< may be empty
  std::unordered_map<uint64_t, std::shared_ptr<session>> sessions;
  std::array<char, 64 << 10> scratch;  ///< every socket is read into it: quiet ones hold no buffer
  bool is_draining = false;
  /// The time, read once per event, not once per byte moved.
  clock::time_point now{};

private:
  void serve_woken();

  std::mutex mutex_;
  std::vector<std::shared_ptr<exchange>> woken_;
  bool is_posted_ = false;
};

}  // namespace deepinfer::http
