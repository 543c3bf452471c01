#pragma once

#include <caf/actor_proxy.hpp>

#include <atomic>
#include <cstdint>
#include <memory>

namespace deepinfer::remote {

class hub_core;
class peer_link;

/// Stands for one actor of a peer: an ordinary CAF actor to everybody who holds a handle. What is
/// sent to it becomes a frame at once, on the sender's thread; it has no mailbox and never runs.
/// It dies with the actor (if somebody monitors or links to it) or with the link, whichever the
/// hub learns first, and never comes back to life.
class remote_proxy final : public caf::actor_proxy {
public:
  remote_proxy(caf::actor_config& config,
               std::shared_ptr<hub_core> core,
               std::shared_ptr<peer_link> link,
               uint64_t number);

  using caf::actor_proxy::enqueue;
  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* context) override;

  // Whoever observes this proxy makes the hub monitor the actor at its node; the hub asks
  // `observed` on the transport's thread afterwards, so the order of quick changes cannot matter.
  void attach(caf::attachable_ptr what) override;
  size_t detach(const caf::attachable::token& what) override;
  bool add_backlink(caf::abstract_actor* other) override;
  bool remove_backlink(caf::abstract_actor* other) override;

  /// Delivers `down_msg` and `exit_msg` to all observers; idempotent. Any thread.
  void kill_proxy(caf::execution_unit* context, caf::error reason) override;

  void on_destroy() override;
  const char* name() const override { return "remote_proxy"; }

  [[nodiscard]] bool dead() const noexcept { return dead_.load(std::memory_order_acquire); }
  [[nodiscard]] bool observed() const;
  [[nodiscard]] uint64_t number() const noexcept { return number_; }
  [[nodiscard]] const std::shared_ptr<peer_link>& link() const noexcept { return link_; }

private:
  const std::shared_ptr<hub_core> core_;
  const std::shared_ptr<peer_link> link_;
  const uint64_t number_;
  std::atomic<bool> dead_{false};
};

}  // namespace deepinfer::remote
