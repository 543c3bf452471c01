#include "actors/remote/peer_watch.hpp"

#include "actors/remote/frames.hpp"
#include "actors/remote/hub_core.hpp"

#include <utility>

namespace deepinfer::remote {

peer_watch::peer_watch(std::weak_ptr<hub_core> core, std::weak_ptr<peer_link> link, uint64_t number)
    : core_(std::move(core)), link_(std::move(link)), which_(link_.lock().get()), number_(number) {}

// On the actor's thread, so that the news follows everything the actor sent before.
void peer_watch::actor_exited(const caf::error& reason, caf::execution_unit*) {
  const auto core = core_.lock();
  const auto link = link_.lock();
  if (!core || !link || !link->up()) return;
  auto frame = reason_frame(wire::frame_kind::down, reason);
  frame.header.source = number_;
  core->send_control(link, std::move(frame));
  core->post([link, number = number_] { link->on_thread.watched.erase(number); });
}

bool peer_watch::matches(const caf::attachable::token& what) {
  if (what.subtype != token::token_type) return false;
  const auto& which = *static_cast<const token*>(what.ptr);
  return which.link == which_ && which.number == number_;
}

}  // namespace deepinfer::remote
