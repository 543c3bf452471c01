#include "actors/remote/hub_core.hpp"

#include "actors/messages/errors.hpp"
#include "actors/remote/actor_ref.hpp"
#include "actors/remote/peer_watch.hpp"
#include "actors/remote/remote_proxy.hpp"
#include "proto/types/check.hpp"
#include "proto/types/limits.hpp"

#include <caf/actor_cast.hpp>
#include <caf/actor_config.hpp>
#include <caf/make_actor.hpp>
#include <caf/make_message.hpp>
#include <caf/system_messages.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace deepinfer::remote {
namespace {

/// CAF's node id holds ours in the first 16 of its 20 bytes.
caf::node_id to_caf_node(const node_id& id) {
  caf::node_id::default_data::host_id_type bytes{};
  std::memcpy(bytes.data(), &id.hi, sizeof id.hi);
  std::memcpy(bytes.data() + sizeof id.hi, &id.lo, sizeof id.lo);
  return caf::make_node_id(1, bytes);
}

}  // namespace

hub_core::hub_core(caf::actor_system& system,
                   net::transport& transport,
                   const remote_config& config,
                   clock_function clock)
    : system_(system),
      config_(config),
      clock_(std::move(clock)),
      self_(transport.self()),
      unit_(system, {config.inline_jobs, config.inline_messages}),
      transport_(&transport) {}

bool hub_core::is_local(const caf::strong_actor_ptr& actor) const {
  return actor->node() == system_.node();
}

void hub_core::log(const std::string& name, const std::string& fields) const {
  const std::shared_lock open{gate_};  // the sink may go away once `close` has returned
  if (transport_ != nullptr && log_) log_(name, fields);
}

void hub_core::add_peer(const net::peer_info& peer) {
  const std::unique_lock lock{links_mutex_};
  DEEPINFER_CHECK(!links_.contains(peer.id));  // `on_peer_down` comes before the next `on_peer_up`
  links_[peer.id] = std::make_shared<peer_link>(peer, to_caf_node(peer.id));
  std::erase_if(departed_, [&](const net::peer_info& gone) { return gone.id == peer.id; });
}

// In this order: no more sends, requests answered, handles dead, linked actors told.
void hub_core::remove_peer(const node_id& peer, const failure& why, caf::execution_unit* host) {
  link_ptr link;
  {
    const std::unique_lock lock{links_mutex_};
    const auto found = links_.find(peer);
    if (found == links_.end()) return;
    link = std::move(found->second);
    links_.erase(found);
    departed_.push_back(link->peer());
    if (departed_.size() > limits::max_nodes) departed_.pop_front();
  }
  const failure reason{error_code::unreachable,
                       "node " + to_string(peer) + " is gone: " + to_string(why)};
  auto left = link->take_down();
  count_.bounced += left.requests.size();
  for (const auto& request : left.requests)
    request.sender->enqueue(nullptr, request.id.response_id(), caf::make_message(to_caf(reason)),
                            host);
  for (const auto& weak : left.proxies)
    if (const auto proxy = weak.lock())
      static_cast<remote_proxy&>(*proxy->get()).kill_proxy(host, to_caf(reason));
  auto state = std::move(link->on_thread);
  for (const auto& [pair, proxy] : state.linked)
    if (const auto actor = locals_->find(pair.first))
      actor->enqueue(
          proxy, caf::make_message_id(),
          caf::make_message(caf::exit_msg{caf::actor_cast<caf::actor_addr>(proxy), to_caf(reason)}),
          host);
  for (const uint64_t number : state.watched) {
    const peer_watch::token which{link.get(), number};
    if (const auto actor = locals_->find(number)) actor->get()->detach(which);
  }
}

std::shared_ptr<peer_link> hub_core::find_link(const node_id& node) const {
  const std::shared_lock lock{links_mutex_};
  const auto found = links_.find(node);
  return found == links_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<peer_link>> hub_core::all_links() const {
  std::vector<link_ptr> all;
  const std::shared_lock lock{links_mutex_};
  for (const auto& [id, link] : links_) all.push_back(link);
  return all;
}

caf::strong_actor_ptr hub_core::proxy_for(const std::shared_ptr<peer_link>& link, uint64_t number) {
  return link->proxy(number, [&] {
    caf::actor_config config;
    return caf::make_actor<remote_proxy, caf::strong_actor_ptr>(
        number, link->caf_node(), &system_, config, shared_from_this(), link, number);
  });
}

failure hub_core::why_absent(const node_id& node) const {
  const std::shared_lock lock{links_mutex_};
  const auto gone = std::find_if(departed_.begin(), departed_.end(),
                                 [&](const net::peer_info& p) { return p.id == node; });
  if (gone == departed_.end())
    return {error_code::unreachable, "no link to node " + to_string(node)};
  const bool back = std::any_of(links_.begin(), links_.end(), [&](const auto& entry) {
    const net::peer_info& now = entry.second->peer();
    return now.address == gone->address && now.epoch > gone->epoch;
  });
  if (back)
    return {error_code::stale_epoch, "node " + to_string(node) + " at " + gone->address +
                                         " was restarted: look its actors up again"};
  return {error_code::unreachable, "node " + to_string(node) + " is gone"};
}

void hub_core::sweep() {
  const auto now = clock_();
  next_sweep_.store((now + config_.sweep_every).count(), std::memory_order_relaxed);
  for (const auto& link : all_links()) {
    for (const auto& late : link->close_older(now - config_.longest_request))
      bounce(late.sender, late.id,
             {error_code::deadline_exceeded, "no answer within remote.longest_request"});
    flush_control(link);
  }
}

void hub_core::sweep_if_due() {
  if (clock_().count() >= next_sweep_.load(std::memory_order_relaxed)) sweep();
}

void hub_core::close(const failure& why) {
  {
    const std::unique_lock shut{gate_};
    transport_ = nullptr;
  }
  for (const auto& link : all_links()) remove_peer(link->peer().id, why, nullptr);
  locals_->release();
}

remote_stats hub_core::stats() const {
  remote_stats s;
  for (const auto& link : all_links()) {
    ++s.peers;
    s.proxies += link->proxies();
    s.pending += link->pending();
  }
  s.exports = locals_->exports();
  s.known_senders = locals_->size() - s.exports;
  s.sent = count_.sent;
  s.refused = count_.refused;
  s.bounced = count_.bounced;
  s.dropped = count_.dropped;
  s.stale_answers = count_.stale_answers;
  s.not_crossing = count_.not_crossing;
  s.relayed = count_.relayed;
  s.without_sender = count_.without_sender;
  s.inline_runs = unit_.runs();
  std::copy(count_.received.begin(), count_.received.end(), s.received.begin());
  return s;
}

}  // namespace deepinfer::remote
