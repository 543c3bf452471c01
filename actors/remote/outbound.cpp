#include "actors/messages/errors.hpp"
#include "actors/remote/frames.hpp"
#include "actors/remote/hub_core.hpp"
#include "actors/remote/remote_proxy.hpp"

#include <caf/actor_cast.hpp>
#include <caf/system_messages.hpp>

#include <bit>
#include <utility>

/// From a proxy to the transport. Any thread.
namespace deepinfer::remote {
namespace {

// An event per lost message would drown the log just when it is needed: 1st, 2nd, 4th, 8th, ...
bool worth_a_line(uint64_t count) {
  return std::has_single_bit(count);
}

}  // namespace

void hub_core::send(remote_proxy& to, const caf::mailbox_element& what) {
  if (what.content().match_elements<caf::exit_msg>()) return send_exit(to, what);
  if (to.dead() || !to.link()->up()) {
    const failure why{error_code::unreachable,
                      "the remote actor is gone: " + from_caf(to.fail_state()).detail};
    if (what.mid.is_request()) return bounce(what.sender, what.mid, why);
    return drop(*to.link(), to.number(), why);
  }
  if (!what.stages.empty())
    return bounce(what.sender, what.mid, {error_code::unsupported, "no actor chains over nodes"});
  if (what.mid.is_response()) return send_answer(to, what);
  send_message(to, what);
}

void hub_core::send_message(remote_proxy& to, const caf::mailbox_element& what) {
  const auto content = registry_.read(what.content());
  if (!content) {
    not_crossing(*to.link(), to.number());
    return bounce(what.sender, what.mid,
                  {error_code::unsupported, "only one registered wire::msg may cross a process"});
  }
  net::outgoing_frame frame;
  frame.header.kind = wire::frame_kind::message;
  frame.header.destination = to.number();
  frame.header.message_id = what.mid.integer_value();
  frame.header.type_id = content->type_id;
  frame.body = content->bytes;
  frame.keep = content->keep;
  if (what.sender && what.mid.is_request()) return send_request(to, what, std::move(frame));
  if (what.sender && is_local(what.sender)) {
    frame.header.source = locals_->note(what.sender);
  } else if (what.sender) {
    // A number of a third node would mean somebody else to the peer. Whoever wants answers to
    // plain messages puts an ActorRef into them.
    ++count_.without_sender;
  }
  if (auto sent = transmit(*to.link(), std::move(frame)); !sent)
    drop(*to.link(), to.number(), sent.error());
}

void hub_core::send_request(remote_proxy& to,
                            const caf::mailbox_element& what,
                            net::outgoing_frame frame) {
  // The sender of a request that was delegated from a third node has no number that the callee's
  // node could use: the answer comes here, under a number of this one request, and is passed on.
  const bool relayed = !is_local(what.sender);
  const uint64_t source = relayed ? relay_bit | next_relay_++ : locals_->note(what.sender);
  const request_key key{source, what.mid.request_id().integer_value()};
  auto opened = to.link()->open(key, {what.sender, what.mid, clock_(), relayed}, config_);
  if (!opened) return bounce(what.sender, what.mid, opened.error());
  if (relayed) ++count_.relayed;
  frame.header.flags = wire::frame_header::request_flag;
  frame.header.source = source;
  const auto sent = transmit(*to.link(), std::move(frame));
  // When the link goes down at this moment somebody else may have answered already.
  if (!sent && to.link()->close(key)) bounce(what.sender, what.mid, sent.error());
}

void hub_core::send_answer(remote_proxy& to, const caf::mailbox_element& what) {
  const auto& content = what.content();
  const auto address = [&](net::outgoing_frame& frame) {
    frame.header.flags = wire::frame_header::response_flag;
    frame.header.destination = to.number();
    frame.header.message_id = what.mid.integer_value();
  };
  const auto answer_failure = [&](const failure& why) {
    auto frame = failure_frame(wire::frame_kind::error, why);
    address(frame);
    send_control(to.link(), std::move(frame));
  };
  if (content.match_elements<caf::error>())
    return answer_failure(from_caf(content.get_as<caf::error>(0)));
  net::outgoing_frame frame;
  frame.header.kind = wire::frame_kind::message;
  address(frame);
  if (!content.empty()) {
    const auto message = registry_.read(content);
    if (!message) {
      not_crossing(*to.link(), to.number());
      return answer_failure({error_code::unsupported, "the answer is no registered wire::msg"});
    }
    frame.header.type_id = message->type_id;
    frame.body = message->bytes;
    frame.keep = message->keep;
  }
  const auto sent = transmit(*to.link(), std::move(frame));
  if (sent) return;
  // The caller must not wait for an answer that cannot come: a refusal is small enough.
  if (sent.error().code == error_code::unreachable)
    return drop(*to.link(), to.number(), sent.error());
  answer_failure(sent.error());
}

void hub_core::send_exit(remote_proxy& to, const caf::mailbox_element& what) {
  if (to.dead()) return;
  const auto& exit = what.content().get_as<caf::exit_msg>(0);
  auto frame = reason_frame(wire::frame_kind::exit, exit.reason);
  frame.header.destination = to.number();
  // By address: an actor in the middle of its destruction cannot be referenced any more.
  if (exit.source && exit.source.node() == system_.node())
    frame.header.source = locals_->number_of(exit.source.id());
  send_control(to.link(), std::move(frame));
}

void hub_core::bounce(const caf::strong_actor_ptr& sender, caf::message_id id, const failure& why) {
  if (!id.is_request()) {
    ++count_.dropped;
    return;
  }
  ++count_.bounced;
  if (sender) sender->enqueue(nullptr, id.response_id(), caf::make_message(to_caf(why)), nullptr);
}

void hub_core::drop(const peer_link& link, uint64_t destination, const failure& why) {
  if (worth_a_line(++count_.dropped))
    log("remote.message.dropped", "node=" + to_string(link.peer().id) +
                                      " actor=" + std::to_string(destination) +
                                      " reason=" + std::string{to_string(why.code)});
}

void hub_core::not_crossing(const peer_link& link, uint64_t destination) {
  if (worth_a_line(++count_.not_crossing))
    log("remote.message.not_crossing",
        "node=" + to_string(link.peer().id) + " actor=" + std::to_string(destination));
}

void hub_core::observers_changed(const caf::strong_actor_ptr& proxy) {
  post([self = shared_from_this(), proxy] { self->update_watch(proxy); });
}

void hub_core::update_watch(const caf::strong_actor_ptr& proxy) {
  auto& p = static_cast<remote_proxy&>(*proxy->get());
  if (p.dead() || !p.link()->up()) return;  // the observers know, or will in a moment
  auto& watching = p.link()->on_thread.watching;
  const bool want = p.observed();
  if (want == watching.contains(p.number())) return;
  net::outgoing_frame frame;
  frame.header.kind = want ? wire::frame_kind::monitor : wire::frame_kind::unmonitor;
  frame.header.destination = p.number();
  if (want)
    watching.emplace(p.number(), proxy);
  else
    watching.erase(p.number());
  send_control(p.link(), std::move(frame));
}

void hub_core::link_changed(const caf::strong_actor_ptr& proxy,
                            const caf::strong_actor_ptr& other,
                            link_change change) {
  if (!is_local(other)) return;  // two actors of other nodes: theirs to link
  post([self = shared_from_this(), proxy, other, change] {
    self->update_watch(proxy);
    self->update_link(proxy, other, change);
  });
}

void hub_core::update_link(const caf::strong_actor_ptr& proxy,
                           const caf::strong_actor_ptr& other,
                           link_change change) {
  auto& p = static_cast<remote_proxy&>(*proxy->get());
  if (p.dead() || !p.link()->up()) return;
  const uint64_t ours = locals_->note(other);
  net::outgoing_frame frame;
  frame.header.kind =
      change == link_change::made ? wire::frame_kind::monitor : wire::frame_kind::unmonitor;
  frame.header.destination = p.number();
  frame.header.source = ours;
  frame.header.aux = link_aux;
  if (change == link_change::cut) p.link()->on_thread.linked.erase({ours, p.number()});
  send_control(p.link(), std::move(frame));
}

result<void> hub_core::transmit(const peer_link& link, net::outgoing_frame frame) {
  const std::shared_lock open{gate_};
  if (transport_ == nullptr)
    return failure{error_code::unreachable, "this node has left the cluster"};
  auto sent = transport_->send(link.peer().id, std::move(frame));
  ++(sent ? count_.sent : count_.refused);
  return sent;
}

void hub_core::send_control(const std::shared_ptr<peer_link>& link, net::outgoing_frame frame) {
  {
    const std::lock_guard lock{link->waiting.mutex};
    auto& frames = link->waiting.frames;
    if (frames.empty()) {
      const auto sent = transmit(*link, frame);
      if (sent || sent.error().code != error_code::no_capacity) return;
    }
    if (frames.size() < config_.max_waiting_control) {
      frames.push_back(std::move(frame));
      link->waiting.any.store(true, std::memory_order_relaxed);
      return;
    }
  }
  const std::shared_lock open{gate_};
  if (transport_ != nullptr)
    transport_->drop(link->peer().id,
                     {error_code::no_capacity,
                      "the node does not take what it is sent (remote.max_waiting_control)"});
}

void hub_core::flush_control(const std::shared_ptr<peer_link>& link) {
  if (!link->waiting.any.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock{link->waiting.mutex};
  auto& frames = link->waiting.frames;
  while (!frames.empty()) {
    const auto sent = transmit(*link, frames.front());
    if (!sent && sent.error().code == error_code::no_capacity) return;
    frames.pop_front();
  }
  link->waiting.any.store(false, std::memory_order_relaxed);
}

void hub_core::post(std::function<void()> task) {
  const std::shared_lock open{gate_};
  if (transport_ != nullptr) transport_->post(std::move(task));
}

}  // namespace deepinfer::remote
