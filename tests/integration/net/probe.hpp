#pragma once

#include "runtime/net/fabric/fabric_transport.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

namespace deepinfer::test {

using namespace std::chrono_literals;

inline constexpr auto patience = 20s;  ///< for anything that must happen; the machine may be busy

/// Records what a transport tells, for a test that waits on another thread.
class probe : public net::transport_handler {
public:
  struct record {
    wire::frame_header header;
    std::vector<std::byte> body;
  };

  void on_peer_up(const net::peer_info& peer) override {
    change([&] { ++up[peer.id], address[peer.id] = peer.address; });
  }
  void on_peer_down(const node_id& peer, const failure& why) override {
    change([&] { ++down[peer], last_down = why; });
  }
  void on_frame(const node_id& from, const net::incoming_frame& frame) override {
    change([&] {
      auto& list = frames[from];
      ++frame_count;
      if (keep_bodies) list.push_back({frame.header, {frame.body.begin(), frame.body.end()}});
    });
  }
  void on_dial_failed(const std::string& where, const failure& why) override {
    change([&] { ++dials_failed, last_dial = why, last_dial_address = where; });
  }
  void on_event(const std::string& name, const std::string&) override {
    change([&] { ++events[name]; });
  }

  /// True when `condition` (called under the lock) holds within the patience.
  bool wait(const std::function<bool()>& condition,
            std::chrono::steady_clock::duration limit = patience) {
    std::unique_lock lock{mutex};
    return changed.wait_for(lock, limit, condition);
  }
  void change(const std::function<void()>& what) {
    {
      const std::lock_guard lock{mutex};
      what();
    }
    changed.notify_all();
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::map<node_id, int> up, down;
  std::map<node_id, std::string> address;
  std::map<node_id, std::vector<record>> frames;
  size_t frame_count = 0;
  bool keep_bodies = true;
  int dials_failed = 0;
  failure last_down, last_dial;
  std::string last_dial_address;
  std::map<std::string, int> events;
};

inline net::fabric_config test_config(uint64_t number) {
  net::fabric_config config;
  config.node = {0xABCD, number};
  config.epoch = number;
  config.cluster = "test";
  config.secret = "open sesame";
  config.listen_port = 0;
  return config;
}

/// A started transport with its probe.
struct live_node {
  probe heard;
  std::unique_ptr<net::transport> link;

  explicit live_node(const net::fabric_config& config) {
    auto made = net::make_fabric_transport(config);
    if (!made) MESSAGE(made.error().detail);
    REQUIRE(made);
    link = *std::move(made);
    REQUIRE(link->start(heard));
  }
  ~live_node() { link->stop(); }

  [[nodiscard]] node_id id() const { return link->self(); }
  bool wait_up(const node_id& peer, int times = 1) {
    return heard.wait([&] { return heard.up[peer] >= times; });
  }
  bool wait_down(const node_id& peer, int times = 1) {
    return heard.wait([&] { return heard.down[peer] >= times; });
  }
  bool wait_frames(size_t count) {
    return heard.wait([&] { return heard.frame_count >= count; });
  }
  void connect(live_node& other) {
    link->dial(other.link->address());
    const bool linked = wait_up(other.id());
    const std::string why = to_string(heard.last_dial);
    CAPTURE(why);
    REQUIRE(linked);
    REQUIRE(other.wait_up(id()));
  }
  result<void> send(const node_id& to,
                    uint64_t number,
                    std::span<const std::byte> body = {},
                    std::shared_ptr<const void> keep = {}) {
    wire::frame_header header;
    header.message_id = number;
    return link->send(to, {header, body, std::move(keep)});
  }
  /// Reads and waits for the end.
  error_code read(const node_id& from,
                  const net::remote_span& what,
                  std::span<std::byte> into,
                  std::chrono::milliseconds deadline = 10s) {
    const auto code = std::make_shared<std::atomic<int>>(-1);
    link->read(from, what, into, deadline, [this, code](const result<void>& how) {
      heard.change([&] { code->store(static_cast<int>(how ? error_code::ok : how.error().code)); });
    });
    REQUIRE(heard.wait([&] { return code->load() >= 0; }));
    return static_cast<error_code>(code->load());
  }
};

inline std::vector<std::byte> pattern(size_t bytes, uint64_t seed) {
  std::vector<std::byte> out(bytes);
  for (size_t i = 0; i < bytes; ++i)
    out[i] = static_cast<std::byte>((i * 31 + seed * 17 + (i >> 8)) & 0xff);
  return out;
}

}  // namespace deepinfer::test
