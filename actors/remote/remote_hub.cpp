#include "actors/remote/remote_hub.hpp"

#include "actors/remote/hub_core.hpp"
#include "actors/remote/remote_proxy.hpp"

#include <caf/resumable.hpp>

#include <utility>

namespace deepinfer {

remote_hub::remote_hub(caf::actor_system& system,
                       net::transport& transport,
                       const remote_config& config,
                       clock_function clock)
    : core_(std::make_shared<remote::hub_core>(system, transport, config, std::move(clock))) {
  core_->on_log(
      [this](const std::string& name, const std::string& fields) { on_event(name, fields); });
}

remote_hub::~remote_hub() {
  stop();
}

void remote_hub::subscribe(hub_events events) {
  subscribers_.push_back(std::move(events));
}

void remote_hub::stop() {
  core_->close({error_code::cancelled, "this node has left the cluster"});
}

void remote_hub::sweep() {
  core_->sweep();
}

remote_stats remote_hub::stats() const {
  return core_->stats();
}

actor_ref remote_hub::locate(const caf::strong_actor_ptr& actor) const {
  if (!actor) return {};
  if (core_->is_local(actor)) return {core_->self(), core_->locals().number_of(actor->id()), 0};
  if (const auto* proxy = dynamic_cast<const remote::remote_proxy*>(actor->get()))
    return {proxy->link()->peer().id, proxy->number(), 0};
  return {};
}

result<actor_ref> remote_hub::export_pointer(const caf::strong_actor_ptr& actor,
                                             uint64_t interface) {
  if (!actor) return failure{error_code::invalid_argument, "an empty handle names no actor"};
  actor_ref ref = locate(actor);
  ref.interface = interface;
  if (!ref) return failure{error_code::invalid_argument, "the handle is of another layer"};
  if (!core_->is_local(actor)) return ref;
  const auto number = core_->locals().keep(actor, core_->config().max_exports);
  if (!number) return number.error();
  ref.actor = *number;
  return ref;
}

result<caf::strong_actor_ptr> remote_hub::resolve_pointer(const actor_ref& ref,
                                                          uint64_t interface) {
  if (!ref) return failure{error_code::invalid_argument, "the ref names no actor"};
  if (interface != 0 && ref.interface != interface)
    return failure{error_code::invalid_argument,
                   "actor " + to_string(ref) + " has another interface than expected here"};
  if (ref.node == core_->self()) {
    auto local = core_->locals().find(ref.actor);
    if (!local) return failure{error_code::not_found, "actor " + to_string(ref) + " has ended"};
    return local;
  }
  const auto link = core_->find_link(ref.node);
  if (!link) return core_->why_absent(ref.node);
  auto proxy = core_->proxy_for(link, ref.actor);
  if (!proxy) return core_->why_absent(ref.node);
  return proxy;
}

result<void> remote_hub::publish_pointer(uint64_t number, const caf::strong_actor_ptr& actor) {
  if (!actor || !core_->is_local(actor))
    return failure{error_code::invalid_argument, "only a local actor can be published"};
  return core_->locals().publish(number, actor);
}

void remote_hub::allow_inline(const caf::strong_actor_ptr& actor) {
  auto* job = dynamic_cast<caf::resumable*>(actor->get());
  if (job == nullptr) return;  // a blocking actor has a thread of its own
  core_->unit().allow(job);
  // Holds the core, because the actor's context is the core's unit from now on.
  actor->get()->attach_functor([core = core_, job] { core->unit().forbid(job); });
}

void remote_hub::on_peer_up(const net::peer_info& peer) {
  core_->add_peer(peer);
  for (const auto& s : subscribers_)
    if (s.peer_up) s.peer_up(peer);
}

void remote_hub::on_peer_down(const node_id& peer, const failure& why) {
  core_->remove_peer(peer, why, &core_->unit());
  for (const auto& s : subscribers_)
    if (s.peer_down) s.peer_down(peer, why);
  core_->unit().run();
}

void remote_hub::on_frame(const node_id& from, const net::incoming_frame& frame) {
  const auto link = core_->find_link(from);
  if (!link) return;
  core_->receive(link, frame);
  core_->unit().run();
  core_->sweep_if_due();
}

void remote_hub::on_dial_failed(const std::string& address, const failure& why) {
  for (const auto& s : subscribers_)
    if (s.dial_failed) s.dial_failed(address, why);
}

void remote_hub::on_event(const std::string& name, const std::string& fields) {
  for (const auto& s : subscribers_)
    if (s.log) s.log(name, fields);
}

}  // namespace deepinfer
