#pragma once

#include "actors/remote/remote_config.hpp"
#include "runtime/net/transport.hpp"

#include <caf/actor_control_block.hpp>
#include <caf/message_id.hpp>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace deepinfer::remote {

/// Names an open request at one peer: the number its answer comes back to, and CAF's request id.
struct request_key {
  uint64_t actor = 0;
  uint64_t request = 0;
  friend bool operator==(const request_key&, const request_key&) = default;
};

struct request_key_hash {
  size_t operator()(const request_key& k) const noexcept {
    return k.actor * 0x9E3779B97F4A7C15u ^ k.request;
  }
};

/// Who waits for the answer. Holds the waiting actor as a local callee's mailbox would.
struct open_request {
  caf::strong_actor_ptr sender;
  caf::message_id id;
  std::chrono::nanoseconds since{};
  bool relayed = false;
};

/// One life of one link to one peer, and everything that ends with it. A peer that comes back
/// gets a new `peer_link`: nothing of the old one is resent or revived.
///
/// The tables under `mutex_` may be used from any thread. `on_thread` belongs to the transport's
/// thread (to `remote_hub::stop` once that thread is gone).
class peer_link {
public:
  peer_link(net::peer_info peer, caf::node_id caf_node)
      : peer_(std::move(peer)), caf_node_(std::move(caf_node)) {}

  [[nodiscard]] const net::peer_info& peer() const noexcept { return peer_; }
  [[nodiscard]] const caf::node_id& caf_node() const noexcept { return caf_node_; }
  [[nodiscard]] bool up() const noexcept { return up_.load(std::memory_order_acquire); }

  /// Remembers a request before it is sent: `unreachable` when the link is down, `no_capacity`
  /// at a limit.
  result<void> open(const request_key& key, open_request request, const remote_config& limits);

  /// Takes the request out: whoever gets it owes its sender the one answer.
  [[nodiscard]] std::optional<open_request> close(const request_key& key);

  /// Takes out requests that started before `oldest` and forgets those whose sender has ended.
  [[nodiscard]] std::vector<open_request> close_older(std::chrono::nanoseconds oldest);

  /// The proxy of the peer's actor, made by `make` if there is none; null when the link is down.
  [[nodiscard]] caf::strong_actor_ptr proxy(uint64_t number,
                                            const std::function<caf::strong_actor_ptr()>& make);
  [[nodiscard]] caf::strong_actor_ptr find_proxy(uint64_t number) const;
  /// Only if the entry is `which`: a successor under the same number stays.
  void forget_proxy(uint64_t number, const caf::actor_control_block* which);

  /// Marks the link as down and hands out what must be told about it. Empty the second time.
  struct remains {
    std::vector<open_request> requests;
    std::vector<caf::weak_actor_ptr> proxies;
  };
  [[nodiscard]] remains take_down();

  [[nodiscard]] size_t pending() const;
  [[nodiscard]] size_t proxies() const;

  /// Control frames that wait for room, in order; see `remote_config::max_waiting_control`.
  struct waiting_frames {
    std::mutex mutex;
    std::deque<net::outgoing_frame> frames;
    std::atomic<bool> any{false};
  } waiting;

  /// State of the transport's thread.
  struct thread_state {
    /// Monitored at the peer: the proxy lives until the news comes, even if nobody else holds it.
    std::unordered_map<uint64_t, caf::strong_actor_ptr> watching;
    std::unordered_set<uint64_t> watched;  ///< our actors that the peer monitors
    /// Our actors that share the end of an actor of the peer: (ours, the peer's) -> its proxy.
    std::map<std::pair<uint64_t, uint64_t>, caf::strong_actor_ptr> linked;
  } on_thread;

private:
  const net::peer_info peer_;
  const caf::node_id caf_node_;
  std::atomic<bool> up_{true};

  mutable std::mutex mutex_;
  std::unordered_map<request_key, open_request, request_key_hash> requests_;
  size_t relays_ = 0;
  std::unordered_map<uint64_t, caf::weak_actor_ptr> proxies_;
};

}  // namespace deepinfer::remote
