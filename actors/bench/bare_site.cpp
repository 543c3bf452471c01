#include "actors/bench/bare_site.hpp"

#include "actors/bench/known_protocol.hpp"
#include "actors/bench/null_model.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace deepinfer::bench {
namespace {

struct open_stream {
  std::shared_ptr<http_responder> responder;
  uint32_t left = 0;
};

// A client that has gone is no matter here: it is the measuring one, and the run is over.
void write_event(http_responder& responder) {
  static_cast<void>(responder.write(known_event(stamp_now())).has_value());
}

void write_end(http_responder& responder) {
  static_cast<void>(responder.write(known_end()).has_value());
  static_cast<void>(responder.finish().has_value());
}

class running_site final : public bare_site {
public:
  explicit running_site(std::chrono::microseconds step) : step_(step) {}
  ~running_site() override {
    if (server_) server_->stop();
    {
      const std::lock_guard lock{mutex_};
      over_ = true;
    }
    changed_.notify_all();
    if (pacer_.joinable()) pacer_.join();
  }

  result<void> open() {
    http_config config;
    config.listen = "127.0.0.1:0";
    auto made = make_http_server(config, [this](const std::shared_ptr<const http_request>& request,
                                                std::shared_ptr<http_responder> responder) {
      answer(*request, std::move(responder));
    });
    if (!made) return made.error();
    server_ = *std::move(made);
    if (step_.count() > 0) pacer_ = std::thread{[this] { pace(); }};
    return server_->start();
  }

  [[nodiscard]] std::string address() const override { return server_->address(); }

private:
  void answer(const http_request& request, std::shared_ptr<http_responder> responder) {
    const uint32_t tokens = known_tokens(request.body);
    static_cast<void>(responder->begin_stream(200, "text/event-stream; charset=utf-8").has_value());
    if (step_.count() > 0) {
      const std::lock_guard lock{mutex_};
      streams_.push_back({std::move(responder), tokens});
      return;
    }
    for (uint32_t i = 0; i < tokens; ++i) write_event(*responder);
    write_end(*responder);
  }

  void pace() {
    auto beat = std::chrono::steady_clock::now();
    std::unique_lock lock{mutex_};
    while (!over_) {
      beat += step_;
      changed_.wait_until(lock, beat, [this] { return over_; });
      for (open_stream& stream : streams_) {
        write_event(*stream.responder);
        if (--stream.left == 0) write_end(*stream.responder);
      }
      std::erase_if(streams_, [](const open_stream& stream) { return stream.left == 0; });
    }
  }

  const std::chrono::microseconds step_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::vector<open_stream> streams_;
  std::unique_ptr<http_server> server_;
  std::thread pacer_;
};

}  // namespace

result<std::unique_ptr<bare_site>> bare_site::make(std::chrono::microseconds step) {
  auto out = std::make_unique<running_site>(step);
  if (auto opened = out->open(); !opened) return opened.error();
  return std::unique_ptr<bare_site>{std::move(out)};
}

}  // namespace deepinfer::bench
