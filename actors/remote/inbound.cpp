#include "actors/messages/errors.hpp"
#include "actors/remote/frames.hpp"
#include "actors/remote/hub_core.hpp"
#include "actors/remote/peer_watch.hpp"
#include "actors/remote/remote_proxy.hpp"

#include <caf/actor_cast.hpp>
#include <caf/make_message.hpp>
#include <caf/system_messages.hpp>

#include <utility>

/// From the transport to the actors. The transport's thread.
namespace deepinfer::remote {
namespace {

/// What a peer may put into a message id: CAF's stream categories and its answered bit would be
/// believed by the mailbox.
caf::message_id clean_id(uint64_t value) {
  const caf::message_id raw{
      value & (caf::message_id::request_id_mask | caf::message_id::category_flag_mask)};
  return raw.is_stream_message() ? raw.with_category(caf::message_id::normal_message_category)
                                 : raw;
}

bool flagged(const wire::frame_header& header, uint8_t flag) {
  return (header.flags & flag) != 0;
}

}  // namespace

void hub_core::receive(const link_ptr& link, const net::incoming_frame& frame) {
  const auto& header = frame.header;
  ++count_.received[static_cast<size_t>(header.kind) % count_.received.size()];
  flush_control(link);
  switch (header.kind) {
    case wire::frame_kind::message:
      if (flagged(header, wire::frame_header::response_flag)) return receive_answer(link, frame);
      return receive_message(link, frame);
    case wire::frame_kind::error:
      return receive_answer(link, frame);
    case wire::frame_kind::monitor:
      return receive_monitor(link, header);
    case wire::frame_kind::unmonitor:
      return receive_unmonitor(link, header);
    case wire::frame_kind::down:
      return receive_down(link, frame);
    case wire::frame_kind::exit:
      return receive_exit(link, frame);
    default:
      return;  // the transport's own talk
  }
}

void hub_core::receive_message(const link_ptr& link, const net::incoming_frame& frame) {
  const auto& header = frame.header;
  const bool request = flagged(header, wire::frame_header::request_flag) && header.source != 0;
  const auto fail = [&](const failure& why) {
    if (request) return refuse(link, header, why);
    drop(*link, header.destination, why);
  };
  const auto actor = locals_->find(header.destination);
  if (!actor) return fail({error_code::not_found, "no such actor on this node, or it has ended"});
  auto id = clean_id(header.message_id);
  if (!request && !id.is_async())  // nobody waits for an answer
    id = id.is_urgent_message() ? caf::message_id{0} : caf::message_id{};
  auto sender = header.source == 0 ? nullptr : proxy_for(link, header.source);
  auto element = registry_.make(header.type_id, frame.body, std::move(sender), id);
  if (!element) {
    log("remote.message.refused", "node=" + to_string(link->peer().id) +
                                      " type=" + std::to_string(header.type_id) +
                                      " reason=" + std::string{to_string(element.error().code)});
    return fail(element.error());
  }
  actor->enqueue(*std::move(element), &unit_);
}

void hub_core::receive_answer(const link_ptr& link, const net::incoming_frame& frame) {
  const auto& header = frame.header;
  const auto request =
      link->close({header.destination, header.message_id & caf::message_id::request_id_mask});
  if (!request) {
    ++count_.stale_answers;
    return;
  }
  const auto id = request->id.response_id();
  const auto fail = [&](const failure& why) {
    request->sender->enqueue(nullptr, id, caf::make_message(to_caf(why)), &unit_);
  };
  if (header.kind == wire::frame_kind::error) return fail(read_failure(frame));
  if (header.type_id == 0)
    return request->sender->enqueue(nullptr, id, caf::make_message(), &unit_);
  auto element = registry_.make(header.type_id, frame.body, nullptr, id);
  if (!element) return fail(element.error());
  request->sender->enqueue(*std::move(element), &unit_);
}

void hub_core::refuse(const link_ptr& link, const wire::frame_header& request, const failure& why) {
  ++count_.bounced;
  auto frame = failure_frame(wire::frame_kind::error, why);
  frame.header.flags = wire::frame_header::response_flag;
  frame.header.destination = request.source;
  frame.header.message_id = request.message_id;
  send_control(link, std::move(frame));
}

void hub_core::receive_monitor(const link_ptr& link, const wire::frame_header& header) {
  const auto actor = locals_->find(header.destination);
  if (!actor) {
    auto frame = failure_frame(wire::frame_kind::down,
                               {error_code::not_found, "the actor had ended before"});
    frame.header.source = header.destination;
    return send_control(link, std::move(frame));
  }
  if (header.aux != link_aux) {
    // Once per link, however often the peer asks.
    const peer_watch::token which{link.get(), header.destination};
    actor->get()->detach(which);
    link->on_thread.watched.insert(header.destination);
    actor->get()->attach(
        std::make_unique<peer_watch>(shared_from_this(), link, header.destination));
    return;
  }
  auto& linked = link->on_thread.linked;
  if (linked.size() >= config_.max_links) {
    // A shared end that cannot be promised has to come now.
    auto frame = failure_frame(
        wire::frame_kind::exit,
        {error_code::no_capacity, "too many links between two nodes (remote.max_links)"});
    frame.header.destination = header.source;
    frame.header.source = header.destination;
    return send_control(link, std::move(frame));
  }
  linked[{header.destination, header.source}] = proxy_for(link, header.source);
}

void hub_core::receive_unmonitor(const link_ptr& link, const wire::frame_header& header) {
  if (header.aux == link_aux) {
    link->on_thread.linked.erase({header.destination, header.source});
    return;
  }
  link->on_thread.watched.erase(header.destination);
  const peer_watch::token which{link.get(), header.destination};
  if (const auto actor = locals_->find(header.destination)) actor->get()->detach(which);
}

void hub_core::receive_down(const link_ptr& link, const net::incoming_frame& frame) {
  const auto proxy = link->find_proxy(frame.header.source);
  link->on_thread.watching.erase(frame.header.source);
  if (proxy) static_cast<remote_proxy&>(*proxy->get()).kill_proxy(&unit_, read_reason(frame));
}

void hub_core::receive_exit(const link_ptr& link, const net::incoming_frame& frame) {
  const auto& header = frame.header;
  link->on_thread.linked.erase({header.destination, header.source});
  const auto actor = locals_->find(header.destination);
  if (!actor) return;
  auto source = header.source == 0 ? nullptr : proxy_for(link, header.source);
  caf::exit_msg exit{caf::actor_cast<caf::actor_addr>(source), read_reason(frame)};
  actor->enqueue(std::move(source), caf::make_message_id(), caf::make_message(std::move(exit)),
                 &unit_);
}

}  // namespace deepinfer::remote
