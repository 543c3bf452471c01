// What travels on links that are up: frames, short and long.
#include "runtime/net/fabric/control_lane.hpp"

#include <cstring>

namespace deepinfer::net {
namespace {

using wire::frame_kind;

/// Body of a rendezvous frame: the long frame's own header, and where its body lies.
struct rendezvous_body {
  wire::frame_header header;
  uint64_t base = 0;
  uint64_t key = 0;
  uint64_t ticket = 0;
};
static_assert(sizeof(rendezvous_body) == 104);

bool for_actors(frame_kind kind) {
  switch (kind) {
    case frame_kind::message:
    case frame_kind::error:
    case frame_kind::monitor:
    case frame_kind::unmonitor:
    case frame_kind::down:
    case frame_kind::exit:
    case frame_kind::credit:
      return true;
    default:
      return false;
  }
}

/// Owns a copy of `frame.body`, for callers that keep nothing alive.
void own_body(outgoing_frame& frame) {
  if (frame.keep || frame.body.empty()) return;
  const auto copy = std::make_shared<std::vector<uint64_t>>((frame.body.size() + 7) / 8);
  std::memcpy(copy->data(), frame.body.data(), frame.body.size());
  frame.body = {reinterpret_cast<const std::byte*>(copy->data()), frame.body.size()};
  frame.keep = copy;
}

}  // namespace

result<void> control_lane::send(const node_id& to, outgoing_frame frame) {
  if (frame.body.size() > limits::max_frame_bytes)
    return failure{error_code::too_large, "frame of " + std::to_string(frame.body.size()) +
                                              " bytes, limit " +
                                              std::to_string(limits::max_frame_bytes)};
  const std::shared_ptr<send_gate> gate = gates_.find(to);
  if (!gate || !gate->open.load())
    return failure{error_code::unreachable, "no link to node " + to_string(to)};
  if (!gate->reserve(sizeof(wire::frame_header) + frame.body.size(), config_))
    return failure{error_code::no_capacity, "send queue to node " + to_string(to) + " is full"};
  own_body(frame);
  if (!on_thread()) {
    outbox_.push({gate, std::move(frame)});
    return {};
  }
  flush_outbox();  // frames sent earlier by other threads go first
  const auto link = links_.find(gate->link);
  if (link == links_.end()) return {};  // closing: as if lost on the way
  link->second->sender.queue(std::move(frame));
  flush(*link->second);
  return {};
}

void control_lane::flush_outbox() {
  for (queued_frame& item : outbox_.take()) {
    const auto link = links_.find(item.gate->link);
    if (link == links_.end() || link->second->doomed) continue;
    link->second->sender.queue(std::move(item.frame));
    flush(*link->second);
  }
}

void control_lane::flush(fabric_link& link) {
  if (link.doomed || !link.endpoint) return;
  switch (link.sender.flush(*link.endpoint, now_)) {
    case link_sender::outcome::idle:
      break;
    case link_sender::outcome::blocked:
      blocked_.insert(link.number);
      break;
    case link_sender::outcome::long_frame:
      show_long_frame(link);
      break;
    case link_sender::outcome::broken:
      doom(link, {error_code::unreachable, "the connection takes no more frames"});
      break;
  }
  completions_ready_ = true;  // what was posted may have changed what the queue waits for
}

void control_lane::send_own(
    fabric_link& link, frame_kind kind, uint64_t aux, std::vector<std::byte> body, uint8_t flags) {
  outgoing_frame frame;
  frame.header.kind = kind;
  frame.header.aux = aux;
  frame.header.flags = flags;
  frame.body = body;
  own_body(frame);
  link.sender.queue_urgent(std::move(frame));
  flush(link);
}

void control_lane::on_bytes(fabric_link& link, std::span<const std::byte> bytes) {
  const auto header = wire::open_frame(bytes);
  if (!header) {
    stats_.frames_corrupt.fetch_add(1);
    event("net.frame.corrupt", "peer=" + link.peer.address + " why=" + header.error().detail);
    return doom(link, {error_code::corrupt, header.error().detail});
  }
  if (header->epoch != link.peer.epoch)
    return doom(link, {error_code::stale_epoch, "frame of another life of the peer"});
  if (header->sequence != link.frames_received + 1) {
    event("net.frame.lost", "peer=" + link.peer.address);
    return doom(link, {error_code::corrupt,
                       "frame " + std::to_string(link.frames_received + 1) + " was lost"});
  }
  ++link.frames_received;
  link.last_heard = now_;
  stats_.frames_received.fetch_add(1, std::memory_order_relaxed);
  stats_.bytes_received.fetch_add(bytes.size(), std::memory_order_relaxed);
  const incoming_frame frame{*header, bytes.subspan(sizeof(wire::frame_header))};
  if (link.phase == link_phase::up) return on_frame(link, frame);
  if (header->kind != frame_kind::auth)
    return doom(link, {error_code::unauthenticated, "a frame before the proof"});
  on_proof(link, frame);
}

void control_lane::on_frame(fabric_link& link, const incoming_frame& frame) {
  const frame_kind kind = frame.header.kind;
  if (for_actors(kind)) {
    if (link.fetching) return doom(link, {error_code::corrupt, "a frame overtook a long one"});
    return handler_->on_frame(link.peer.from, frame);
  }
  switch (kind) {
    case frame_kind::heartbeat:
      return;
    case frame_kind::rendezvous:
      return on_rendezvous(link, frame);
    case frame_kind::rendezvous_done:
      return on_long_frame_taken(link, frame.header.aux);
    case frame_kind::region_query:
      return on_region_query(link, frame);
    case frame_kind::region_reply:
      return on_region_reply(link, frame);
    case frame_kind::goodbye:
      return doom(link, {error_code::cancelled, "the peer said goodbye"});
    default:
      return doom(link, {error_code::corrupt, "a frame of a kind that does not belong here"});
  }
}

// Long frames. The sender shows the body on the bulk lane and says where; the receiver fetches
// and checks it there, delivers it, and says so. Until then the sender holds back what follows,
// so order needs no buffer on the receiving side.

void control_lane::show_long_frame(fabric_link& link) {
  const outgoing_frame& frame = link.sender.next();
  link.sender.long_frame_started();
  const uint64_t ticket = ++numbers_;
  link.ticket = ticket;
  wire::frame_header inner = frame.header;
  inner.epoch = config_.epoch;
  inner.sequence = 0;  // the rendezvous frame carries the link's number
  bulk_.show({link.number, ticket, frame.body, frame.keep,
              [this, number = link.number, ticket, inner,
               body = frame.body](const result<region_info>& where) mutable {
                // on the bulk thread: hashing megabytes must not hold up the control lane
                if (where) wire::seal(inner, body);
                post([this, number, ticket, inner, where] {
                  long_frame_shown(number, ticket, inner, where);
                });
              }});
}

void control_lane::long_frame_shown(uint64_t number,
                                    uint64_t ticket,
                                    const wire::frame_header& inner,
                                    const result<region_info>& where) {
  const auto link = links_.find(number);
  if (link == links_.end() || link->second->doomed) return;
  if (!where)
    return doom(*link->second,
                {error_code::unreachable, "cannot show a long frame: " + where.error().detail});
  const rendezvous_body body{inner, where->base, where->key, ticket};
  const auto* bytes = reinterpret_cast<const std::byte*>(&body);
  send_own(*link->second, frame_kind::rendezvous, 0, {bytes, bytes + sizeof body}, 0);
}

void control_lane::on_long_frame_taken(fabric_link& link, uint64_t ticket) {
  if (!link.sender.long_frame_open() || ticket != link.ticket)
    return doom(link, {error_code::corrupt, "thanks for a long frame that was not sent"});
  bulk_.take_back(link.number, ticket);
  stats_.bytes_sent.fetch_add(link.sender.next().body.size());
  link.sender.long_frame_done();
  flush(link);
}

void control_lane::on_rendezvous(fabric_link& link, const incoming_frame& frame) {
  rendezvous_body body;
  if (frame.body.size() != sizeof body || link.fetching)
    return doom(link, {error_code::corrupt, "malformed rendezvous"});
  std::memcpy(&body, frame.body.data(), sizeof body);
  const wire::frame_header& inner = body.header;
  const bool fits = inner.magic == wire::frame_header::magic_value &&
                    inner.version == wire::frame_header::version_value &&
                    inner.epoch == link.peer.epoch && for_actors(inner.kind) &&
                    inner.body_bytes > limits::eager_frame_bytes;
  if (!fits || inner.body_bytes > limits::max_frame_bytes) {
    event("net.frame.corrupt", "peer=" + link.peer.address + " why=rendezvous of " +
                                   std::to_string(inner.body_bytes) + " bytes");
    stats_.frames_corrupt.fetch_add(1);
    return doom(link, {error_code::corrupt, "rendezvous for a frame that cannot be"});
  }
  link.fetching = true;
  fetches_.push_back({link.number, inner, {inner.body_bytes, body.base, body.key}, body.ticket});
  start_fetches();
}

void control_lane::start_fetches() {
  while (!fetches_.empty()) {
    const fetch_state next = fetches_.front();
    if (fetch_bytes_ > 0 && fetch_bytes_ + next.where.length > config_.rendezvous_bytes) return;
    fetches_.pop_front();
    if (links_.contains(next.link)) fetch(next);
  }
}

void control_lane::fetch(const fetch_state& what) {
  const std::shared_ptr<std::byte[]> bytes = allocate_aligned(what.where.length);
  if (!bytes)
    return doom(*links_.at(what.link), {error_code::no_capacity, "no memory for a long frame"});
  fetch_bytes_ += what.where.length;
  auto read = std::make_shared<bulk_read>();
  read->into = {bytes.get(), what.where.length};
  read->address = what.where.base;
  read->key = what.where.key;
  read->deadline = now_ + config_.rendezvous_timeout;
  read->done = [this, what, bytes](bulk_outcome outcome, const failure& why) {
    result<void> how;
    if (outcome == bulk_outcome::interrupted)
      how = failure{error_code::unreachable, "the bulk lane broke"};
    else if (outcome == bulk_outcome::failed)
      how = why;
    else if (wire::frame_checksum(what.header, {bytes.get(), what.where.length}) !=
             what.header.checksum)
      how = failure{error_code::corrupt, "long frame: checksum differs"};
    post([this, what, bytes, how] { fetched(what, bytes, how); });
  };
  bulk_.read(what.link, std::move(read));
}

void control_lane::fetched(const fetch_state& what,
                           std::shared_ptr<std::byte[]> bytes,
                           const result<void>& how) {
  fetch_bytes_ -= what.where.length;
  const auto found = links_.find(what.link);
  if (found != links_.end() && !found->second->doomed) {
    const link_ptr link = found->second;
    link->fetching = false;
    link->last_heard = now_;
    if (!how) {
      if (how.error().code == error_code::corrupt) stats_.frames_corrupt.fetch_add(1);
      doom(*link, how.error());
    } else {
      stats_.bytes_received.fetch_add(what.where.length);
      handler_->on_frame(link->peer.from, {what.header, {bytes.get(), what.where.length}});
      if (!link->doomed) send_own(*link, frame_kind::rendezvous_done, what.ticket, {}, 0);
    }
  }
  start_fetches();
}

}  // namespace deepinfer::net
