#pragma once

#include "actors/messages/membership.hpp"
#include "actors/remote/remote_hub.hpp"
#include "runtime/base/log.hpp"

#include <caf/send.hpp>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace deepinfer {

/// Carries link events from the transport's thread to the membership actor. Links may come up
/// before that actor exists (a peer dials an address it knows from before): what happens until
/// then is kept and delivered in order.
class peer_events : public std::enable_shared_from_this<peer_events> {
public:
  /// For `remote_hub::subscribe`; `log` may be null.
  [[nodiscard]] hub_events subscription(const std::shared_ptr<log_sink>& log);
  void deliver_to(const membership_impl_actor& membership);

private:
  template <class Event>
  void pass(Event event) {
    const std::lock_guard lock{mutex_};
    if (membership_) {
      caf::anon_send(membership_, std::move(event));
    } else {
      early_.push_back([event](const membership_impl_actor& to) { caf::anon_send(to, event); });
    }
  }

  std::mutex mutex_;
  membership_impl_actor membership_;
  std::vector<std::function<void(const membership_impl_actor&)>> early_;
};

}  // namespace deepinfer
