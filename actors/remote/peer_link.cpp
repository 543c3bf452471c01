#include "actors/remote/peer_link.hpp"

#include <caf/abstract_actor.hpp>

namespace deepinfer::remote {
namespace {

bool ended(const caf::strong_actor_ptr& actor) {
  return actor->get()->getf(caf::abstract_actor::is_terminated_flag);
}

}  // namespace

result<void> peer_link::open(const request_key& key,
                             open_request request,
                             const remote_config& limits) {
  const std::lock_guard lock{mutex_};
  if (!up()) return failure{error_code::unreachable, "the node of the actor is gone"};
  if (requests_.size() >= limits.max_pending_requests)
    return failure{error_code::no_capacity,
                   "too many requests wait for this node (remote.max_pending_requests)"};
  if (request.relayed && relays_ >= limits.max_relays)
    return failure{error_code::no_capacity,
                   "too many requests are passed on to this node (remote.max_relays)"};
  const bool relayed = request.relayed;
  if (!requests_.emplace(key, std::move(request)).second)
    return failure{error_code::internal, "two open requests with one id"};
  if (relayed) ++relays_;
  return {};
}

std::optional<open_request> peer_link::close(const request_key& key) {
  const std::lock_guard lock{mutex_};
  const auto found = requests_.find(key);
  if (found == requests_.end()) return std::nullopt;
  open_request taken = std::move(found->second);
  requests_.erase(found);
  if (taken.relayed) --relays_;
  return taken;
}

std::vector<open_request> peer_link::close_older(std::chrono::nanoseconds oldest) {
  // Actors are released outside the lock: the last reference may run code of theirs.
  std::vector<open_request> late;
  std::vector<open_request> orphans;
  const std::lock_guard lock{mutex_};
  for (auto i = requests_.begin(); i != requests_.end();) {
    const bool orphan = ended(i->second.sender);
    if (!orphan && i->second.since >= oldest) {
      ++i;
      continue;
    }
    if (i->second.relayed) --relays_;
    (orphan ? orphans : late).push_back(std::move(i->second));
    i = requests_.erase(i);
  }
  return late;
}

caf::strong_actor_ptr peer_link::proxy(uint64_t number,
                                       const std::function<caf::strong_actor_ptr()>& make) {
  const std::lock_guard lock{mutex_};
  // Checked under the lock: after `take_down` no proxy may appear that nobody would kill.
  if (!up()) return nullptr;
  caf::weak_actor_ptr& entry = proxies_[number];
  if (auto living = entry.lock()) return living;
  auto made = make();
  entry = caf::weak_actor_ptr{made.get()};
  return made;
}

caf::strong_actor_ptr peer_link::find_proxy(uint64_t number) const {
  const std::lock_guard lock{mutex_};
  const auto found = proxies_.find(number);
  return found == proxies_.end() ? nullptr : found->second.lock();
}

void peer_link::forget_proxy(uint64_t number, const caf::actor_control_block* which) {
  const std::lock_guard lock{mutex_};
  const auto found = proxies_.find(number);
  if (found != proxies_.end() && found->second.get() == which) proxies_.erase(found);
}

peer_link::remains peer_link::take_down() {
  remains left;
  const std::lock_guard lock{mutex_};
  up_.store(false, std::memory_order_release);
  for (auto& [key, request] : requests_) left.requests.push_back(std::move(request));
  for (auto& [number, proxy] : proxies_) left.proxies.push_back(std::move(proxy));
  requests_.clear();
  proxies_.clear();
  relays_ = 0;
  return left;
}

size_t peer_link::pending() const {
  const std::lock_guard lock{mutex_};
  return requests_.size();
}

size_t peer_link::proxies() const {
  const std::lock_guard lock{mutex_};
  return proxies_.size();
}

}  // namespace deepinfer::remote
