#pragma once

#include "actors/remote/actor_ref.hpp"
#include "actors/remote/interface_hash.hpp"
#include "actors/remote/remote_config.hpp"
#include "actors/remote/remote_stats.hpp"
#include "runtime/net/transport.hpp"

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace deepinfer {
namespace remote {
class hub_core;
}

/// What a subscriber wants to hear, each on the transport's thread; it must not block. Empty
/// functions are skipped.
struct hub_events {
  std::function<void(const net::peer_info&)> peer_up;
  std::function<void(const node_id&, const failure&)> peer_down;
  std::function<void(const std::string& address, const failure&)> dial_failed;
  std::function<void(const std::string& name, const std::string& fields)> log;
};

/// Handles to actors of other processes: what `resolve` returns is an ordinary typed handle, and
/// send, request, monitor, link and delegate mean the same as for a local actor.
///
/// Guarantees: messages between two actors stay in order while the link lives and arrive at most
/// once; a request ends in exactly one of answer, failure, or the caller's own timeout, and at once
/// with `unreachable` when the node of the callee goes away; `down_msg` comes once per monitor.
/// After a link ended nothing is resent and its handles stay dead: resolve the actor again. A
/// request that timed out goes on at the callee; put a deadline into the message.
///
/// Give handles to others inside messages (`export_actor` there, `resolve` here). The sender of a
/// plain message or request can be answered and monitored as well, except when a message was
/// delegated from a third node: then only its answer finds the way back.
///
/// Order of a node: actor system, transport, hub, `transport.start(hub)`; at the end
/// `transport.stop()`, `hub.stop()`, then the system. Handles may outlive the hub.
class remote_hub final : public net::transport_handler {
public:
  using clock_function = std::function<std::chrono::nanoseconds()>;

  /// `clock` is monotonic; it dates requests for `sweep`.
  remote_hub(caf::actor_system& system,
             net::transport& transport,
             const remote_config& config,
             clock_function clock);
  ~remote_hub() override;
  remote_hub(const remote_hub&) = delete;
  remote_hub& operator=(const remote_hub&) = delete;

  /// Before `transport.start`.
  void subscribe(hub_events events);

  /// The handle in a form that may travel. A local actor is kept alive until it ends from now on
  /// (a remote handle cannot hold a reference): `no_capacity` over `max_exports`,
  /// `invalid_argument` for an empty handle. A remote one is named as its own node named it.
  template <class Handle>
  [[nodiscard]] result<actor_ref> export_actor(const Handle& handle) {
    return export_pointer(caf::actor_cast<caf::strong_actor_ptr>(handle), interface_hash<Handle>());
  }

  /// A handle for the ref. `invalid_argument`: the ref is of another interface (an untyped handle
  /// takes any); `unreachable`: no link to that node; `stale_epoch`: that node was restarted;
  /// `not_found`: an actor of this node that has ended. Whether a remote actor still lives shows
  /// with the first message.
  template <class Handle>
  [[nodiscard]] result<Handle> resolve(const actor_ref& ref) {
    auto found = resolve_pointer(ref, interface_hash<Handle>());
    if (!found) return std::move(found).error();
    return caf::actor_cast<Handle>(*found);
  }

  /// Gives a local actor a number that is the same on every node, 1 to `first_dynamic_actor` - 1.
  template <class Handle>
  result<void> publish(uint64_t number, const Handle& handle) {
    return publish_pointer(number, caf::actor_cast<caf::strong_actor_ptr>(handle));
  }

  /// The well-known actor of a node, without a message exchanged before. If the peer has no actor
  /// of that number, requests are answered with `not_found`.
  template <class Handle>
  [[nodiscard]] result<Handle> well_known(const node_id& node, uint64_t number) {
    return resolve<Handle>(actor_ref{node, number, interface_hash<Handle>()});
  }

  /// Lets an actor handle its messages on the transport's thread, within the budget of
  /// `remote_config`. Only for actors whose handlers take microseconds and never block.
  template <class Handle>
  void run_inline(const Handle& handle) {
    allow_inline(caf::actor_cast<caf::strong_actor_ptr>(handle));
  }

  /// Where an actor lives and under which number, exported or not; for introspection.
  [[nodiscard]] actor_ref locate(const caf::strong_actor_ptr& actor) const;

  /// Ends requests that nobody will answer and retries what found a full queue. Happens by itself
  /// while frames arrive; call it about once a second for the times when none do.
  void sweep();

  /// All remote handles die, open requests fail. Call it after `transport.stop()`.
  void stop();

  [[nodiscard]] remote_stats stats() const;

  // net::transport_handler
  void on_peer_up(const net::peer_info& peer) override;
  void on_peer_down(const node_id& peer, const failure& why) override;
  void on_frame(const node_id& from, const net::incoming_frame& frame) override;
  void on_dial_failed(const std::string& address, const failure& why) override;
  void on_event(const std::string& name, const std::string& fields) override;

private:
  result<actor_ref> export_pointer(const caf::strong_actor_ptr& actor, uint64_t interface);
  result<caf::strong_actor_ptr> resolve_pointer(const actor_ref& ref, uint64_t interface);
  result<void> publish_pointer(uint64_t number, const caf::strong_actor_ptr& actor);
  void allow_inline(const caf::strong_actor_ptr& actor);

  std::shared_ptr<remote::hub_core> core_;
  std::vector<hub_events> subscribers_;
};

}  // namespace deepinfer
