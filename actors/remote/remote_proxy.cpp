#include "actors/remote/remote_proxy.hpp"

#include "actors/remote/hub_core.hpp"
#include "actors/remote/peer_link.hpp"

#include <caf/actor_cast.hpp>

#include <utility>

namespace deepinfer::remote {

remote_proxy::remote_proxy(caf::actor_config& config,
                           std::shared_ptr<hub_core> core,
                           std::shared_ptr<peer_link> link,
                           uint64_t number)
    : caf::actor_proxy(config), core_(std::move(core)), link_(std::move(link)), number_(number) {}

void remote_proxy::enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) {
  core_->send(*this, *what);
}

void remote_proxy::attach(caf::attachable_ptr what) {
  caf::actor_proxy::attach(std::move(what));
  core_->observers_changed(ctrl());
}

size_t remote_proxy::detach(const caf::attachable::token& what) {
  const size_t count = caf::actor_proxy::detach(what);
  if (count > 0) core_->observers_changed(ctrl());
  return count;
}

// Both are called with the locks of this proxy and of `other` held: only post from here.
bool remote_proxy::add_backlink(caf::abstract_actor* other) {
  if (!caf::actor_proxy::add_backlink(other)) return false;
  core_->link_changed(ctrl(), other->ctrl(), link_change::made);
  return true;
}

bool remote_proxy::remove_backlink(caf::abstract_actor* other) {
  const bool removed = caf::actor_proxy::remove_backlink(other);
  core_->link_changed(ctrl(), other->ctrl(), link_change::cut);
  return removed;
}

void remote_proxy::kill_proxy(caf::execution_unit* context, caf::error reason) {
  if (dead_.exchange(true, std::memory_order_acq_rel)) return;
  link_->forget_proxy(number_, ctrl());
  cleanup(std::move(reason), context);
}

void remote_proxy::on_destroy() {
  link_->forget_proxy(number_, ctrl());
  caf::actor_proxy::on_destroy();
}

bool remote_proxy::observed() const {
  const std::lock_guard lock{mtx_};
  return attachables_head_ != nullptr;
}

}  // namespace deepinfer::remote
