#pragma once

#include "actors/remote/inline_unit.hpp"
#include "actors/remote/local_table.hpp"
#include "actors/remote/peer_link.hpp"
#include "actors/remote/remote_config.hpp"
#include "actors/remote/remote_stats.hpp"
#include "actors/remote/type_registry.hpp"
#include "runtime/net/transport.hpp"

#include <caf/actor_system.hpp>
#include <caf/error.hpp>
#include <caf/mailbox_element.hpp>

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

namespace deepinfer::remote {

class remote_proxy;

enum class link_change { made, cut };

/// What proxies and the hub share. Outlives the hub, because handles do: after `close` every send
/// bounces.
class hub_core : public std::enable_shared_from_this<hub_core> {
public:
  using clock_function = std::function<std::chrono::nanoseconds()>;
  using log_function = std::function<void(const std::string& name, const std::string& fields)>;

  hub_core(caf::actor_system& system,
           net::transport& transport,
           const remote_config& config,
           clock_function clock);

  // outbound.cpp: any thread
  void send(remote_proxy& to, const caf::mailbox_element& what);
  /// Answers a request instead of its callee; nothing for a plain message.
  void bounce(const caf::strong_actor_ptr& sender, caf::message_id id, const failure& why);
  void observers_changed(const caf::strong_actor_ptr& proxy);
  void link_changed(const caf::strong_actor_ptr& proxy,
                    const caf::strong_actor_ptr& other,
                    link_change change);
  /// Sends a frame that must not be lost while the link lives.
  void send_control(const std::shared_ptr<peer_link>& link, net::outgoing_frame frame);
  void flush_control(const std::shared_ptr<peer_link>& link);

  // inbound.cpp: the transport's thread
  void receive(const std::shared_ptr<peer_link>& link, const net::incoming_frame& frame);

  // hub_core.cpp
  void add_peer(const net::peer_info& peer);
  /// Ends everything that hangs on the link; `host` is null outside the transport's thread.
  void remove_peer(const node_id& peer, const failure& why, caf::execution_unit* host);
  [[nodiscard]] std::shared_ptr<peer_link> find_link(const node_id& node) const;
  [[nodiscard]] std::vector<std::shared_ptr<peer_link>> all_links() const;
  /// Handle for an actor of that link's peer; null once the link is down.
  [[nodiscard]] caf::strong_actor_ptr proxy_for(const std::shared_ptr<peer_link>& link,
                                                uint64_t number);
  /// Why a node without a link has none: `stale_epoch` if it came back as another life.
  [[nodiscard]] failure why_absent(const node_id& node) const;
  void sweep();
  void sweep_if_due();
  /// No call of the transport after this returned. All proxies die.
  void close(const failure& why);
  [[nodiscard]] remote_stats stats() const;

  [[nodiscard]] bool is_local(const caf::strong_actor_ptr& actor) const;
  [[nodiscard]] local_table& locals() noexcept { return *locals_; }
  [[nodiscard]] inline_unit& unit() noexcept { return unit_; }
  [[nodiscard]] const remote_config& config() const noexcept { return config_; }
  [[nodiscard]] node_id self() const noexcept { return self_; }
  void on_log(log_function log) { log_ = std::move(log); }
  void log(const std::string& name, const std::string& fields) const;

private:
  friend class peer_watch;

  struct counters {
    std::atomic<uint64_t> sent{0}, refused{0}, bounced{0}, dropped{0}, stale_answers{0},
        not_crossing{0}, relayed{0}, without_sender{0};
    std::array<std::atomic<uint64_t>, 16> received{};
  };

  result<void> transmit(const peer_link& link, net::outgoing_frame frame);
  void post(std::function<void()> task);

  void send_exit(remote_proxy& to, const caf::mailbox_element& what);
  void send_answer(remote_proxy& to, const caf::mailbox_element& what);
  void send_message(remote_proxy& to, const caf::mailbox_element& what);
  void send_request(remote_proxy& to, const caf::mailbox_element& what, net::outgoing_frame frame);
  void update_watch(const caf::strong_actor_ptr& proxy);
  void update_link(const caf::strong_actor_ptr& proxy,
                   const caf::strong_actor_ptr& other,
                   link_change change);
  void drop(const peer_link& link, uint64_t destination, const failure& why);
  void not_crossing(const peer_link& link, uint64_t destination);

  using link_ptr = std::shared_ptr<peer_link>;
  void receive_message(const link_ptr& link, const net::incoming_frame& frame);
  void receive_answer(const link_ptr& link, const net::incoming_frame& frame);
  void receive_monitor(const link_ptr& link, const wire::frame_header& header);
  void receive_unmonitor(const link_ptr& link, const wire::frame_header& header);
  void receive_down(const link_ptr& link, const net::incoming_frame& frame);
  void receive_exit(const link_ptr& link, const net::incoming_frame& frame);
  void refuse(const link_ptr& link, const wire::frame_header& request, const failure& why);

  caf::actor_system& system_;
  const remote_config config_;
  const clock_function clock_;
  const node_id self_;
  const type_registry registry_;
  const std::shared_ptr<local_table> locals_ = std::make_shared<local_table>();
  inline_unit unit_;
  log_function log_;
  counters count_;
  std::atomic<uint64_t> next_relay_{1};
  std::atomic<int64_t> next_sweep_{0};

  /// Held shared by every call of the transport, exclusively by `close`.
  mutable std::shared_mutex gate_;
  net::transport* transport_;

  mutable std::shared_mutex links_mutex_;
  std::map<node_id, link_ptr> links_;
  /// Nodes that went away, oldest first, at most `limits::max_nodes`: their refs are still around.
  std::deque<net::peer_info> departed_;
};

}  // namespace deepinfer::remote
