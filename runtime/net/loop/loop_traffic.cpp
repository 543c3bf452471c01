// What moves between two members: dials, frames and reads.
#include "runtime/net/loop/loop_world.hpp"

#include <cstring>
#include <vector>

namespace deepinfer::net {
namespace {

std::string milliseconds(loop_time time) {
  return std::to_string(time.count() / 1'000'000) + " ms";
}

/// The two regions do not overlap unless a node reads from itself, where they might.
result<void> copy_from(const loop_member& owner,
                       const remote_span& what,
                       std::span<std::byte> into) {
  const auto region = owner.regions.find(what.region);
  if (region == owner.regions.end())
    return failure{error_code::invalid_argument,
                   "the peer has no such region: it was unregistered"};
  const std::span<std::byte> bytes = region->second;
  if (what.offset > bytes.size() || what.length > bytes.size() - what.offset)
    return failure{error_code::invalid_argument, "read of " + std::to_string(what.length) +
                                                     " bytes at " + std::to_string(what.offset) +
                                                     " leaves the region of " +
                                                     std::to_string(bytes.size())};
  if (what.length > 0) std::memmove(into.data(), bytes.data() + what.offset, what.length);
  return {};
}

}  // namespace

void loop_world::dial_failed(const std::shared_ptr<loop_member>& from,
                             const std::string& address,
                             const failure& why) {
  if (from->alive()) from->handler->on_dial_failed(address, why);
}

void loop_world::dial(const std::shared_ptr<loop_member>& from, const std::string& address) {
  if (address == from->config.address) return;
  if (cut_between(from->config.address, address) != 0) {
    at(now + options.dial_timeout, [this, from, address] {
      dial_failed(
          from, address,
          {error_code::unreachable, "no answer within " + milliseconds(options.dial_timeout)});
    });
    return;
  }
  // connect and hello: one way there, one way back, one way there
  at(now + one_way() + one_way() + one_way(),
     [this, from, address] { answer_dial(from, address); });
}

std::optional<failure> loop_world::refusal(const loop_member& from, loop_member& to) {
  if (from.config.cluster != to.config.cluster || from.config.secret != to.config.secret) {
    ++to.stats.links_refused;
    to.handler->on_event("net.link.refused", "peer=" + from.config.address);
    return failure{error_code::unauthenticated,
                   "the peer belongs to another cluster or has another secret: compare both"};
  }
  if (to.links.size() >= options.max_links || from.links.size() >= options.max_links)
    return failure{error_code::no_capacity, "link table full: raise max_links"};
  if (to.links.contains(from.config.id))
    return failure{error_code::unreachable, "the peer still holds the former link: dial again"};
  return std::nullopt;
}

void loop_world::answer_dial(const std::shared_ptr<loop_member>& from, const std::string& address) {
  if (!from->alive()) return;
  const auto found = listening.find(address);
  if (found == listening.end())
    return dial_failed(from, address, {error_code::unreachable, "connection refused"});
  const std::shared_ptr<loop_member> to = found->second;
  if (from->links.contains(to->config.id)) return;  // one link per pair stays
  for (const auto& [id, link] : links) {
    // the other side dialled too and its link is about to rise here
    const bool pair = (link.ends[0].member == from && link.ends[1].member == to) ||
                      (link.ends[1].member == from && link.ends[0].member == to);
    if (pair && !link.ends[link.side_of(*from)].notice && link.ends[link.side_of(*to)].up) return;
  }
  if (const auto no = refusal(*from, *to)) return dial_failed(from, address, *no);
  connect(from, to);
}

void loop_world::connect(const std::shared_ptr<loop_member>& from,
                         const std::shared_ptr<loop_member>& to) {
  const uint64_t id = ++links_made;
  loop_link& link = links[id];
  link.ends[0].member = from;
  link.ends[1].member = to;
  // The dialled side knows first; its frames may not overtake the other side's rise.
  const std::string address = to->config.address;
  travel(id, 0, &loop_end::frames, loop_time{0}, [] {});
  at(link.ends[0].frames.last_arrival, [this, id, from, address] {
    if (!rise(id, 0))
      dial_failed(from, address, {error_code::unreachable, "closed during the handshake"});
  });
  rise(id, 1);
}

result<void> loop_world::send(loop_member& from, const node_id& to, outgoing_frame frame) {
  if (frame.body.size() > limits::max_frame_bytes)
    return failure{error_code::too_large, "frame of " + std::to_string(frame.body.size()) +
                                              " bytes, limit " +
                                              std::to_string(limits::max_frame_bytes)};
  const auto found = from.links.find(to);
  if (found == from.links.end())
    return failure{error_code::unreachable, "no link to node " + to_string(to)};
  const uint64_t id = found->second;
  loop_link& link = links.at(id);
  const size_t side = 1 - link.side_of(from);
  loop_end& end = link.ends[side];
  const size_t bytes = sizeof(wire::frame_header) + frame.body.size();
  if (end.queued_bytes > 0 && end.queued_bytes + bytes > options.send_queue_bytes)
    return failure{error_code::no_capacity, "send queue to node " + to_string(to) + " is full"};

  frame.header.epoch = from.config.epoch;
  frame.header.sequence = ++end.sent;
  if (!frame.keep && !frame.body.empty()) {
    const auto copy = std::make_shared<std::vector<uint64_t>>((frame.body.size() + 7) / 8);
    std::memcpy(copy->data(), frame.body.data(), frame.body.size());
    frame.body = {reinterpret_cast<const std::byte*>(copy->data()), frame.body.size()};
    frame.keep = copy;
  }
  wire::seal(frame.header, frame.body);
  end.queued_bytes += bytes;
  ++from.stats.frames_sent;
  from.stats.bytes_sent += bytes;

  if (options.loss_per_million > 0 && random() % 1'000'000 < options.loss_per_million) {
    travel(id, side, &loop_end::frames, transfer(bytes),
           [this, id, side, bytes, sequence = frame.header.sequence] {
             if (loop_link* still = find(id)) still->ends[side].queued_bytes -= bytes;
             lose(id, side, sequence);
           });
    return {};
  }
  travel(id, side, &loop_end::frames, transfer(bytes),
         [this, id, side, frame = std::move(frame)] { deliver(id, side, frame); });
  return {};
}

void loop_world::lose(uint64_t link, size_t side, uint64_t sequence) {
  if (options.loss == loop_loss::breaks_link) {
    const failure reset{error_code::unreachable, "connection reset"};
    notify(link, 1 - side, reset);
    fall(link, side, reset);
    return;
  }
  // the next heartbeat carries a higher sequence number; a frame may show the gap before that
  at(now + options.heartbeat_interval, [this, link, side, sequence] {
    loop_link* still = find(link);
    if (still == nullptr || still->ends[side].received >= sequence) return;
    notify(link, 1 - side, {error_code::unreachable, "the peer closed the link"});
    fall(link, side, {error_code::corrupt, "frame " + std::to_string(sequence) + " was lost"});
  });
}

void loop_world::deliver(uint64_t link, size_t side, const outgoing_frame& frame) {
  loop_link* found = find(link);
  if (found == nullptr) return;
  loop_end& end = found->ends[side];
  const size_t bytes = sizeof(wire::frame_header) + frame.body.size();
  end.queued_bytes -= bytes;
  if (!end.up || !end.member->alive()) return;
  if (frame.header.sequence != end.received + 1) {
    notify(link, 1 - side, {error_code::unreachable, "the peer closed the link"});
    fall(link, side,
         {error_code::corrupt, "frame " + std::to_string(end.received + 1) + " was lost"});
    return;
  }
  ++end.received;
  const std::shared_ptr<loop_member> member = end.member;
  ++member->stats.frames_received;
  member->stats.bytes_received += bytes;
  const node_id from = found->ends[1 - side].member->config.id;
  member->handler->on_frame(from, {frame.header, frame.body});
}

void loop_world::read(const std::shared_ptr<loop_member>& from,
                      const node_id& to,
                      const remote_span& what,
                      std::chrono::milliseconds deadline,
                      loop_read pending) {
  const uint64_t id = ++reads_made;
  const bool sizes_match = pending.into.size() == what.length;
  const auto link = from->links.find(to);
  const bool own = to == from->config.id;
  if (link != from->links.end()) pending.link = link->second;
  from->reads.emplace(id, std::move(pending));

  if (!sizes_match || (!own && link == from->links.end())) {
    const failure why = sizes_match
                            ? failure{error_code::unreachable, "no link to node " + to_string(to)}
                            : failure{error_code::invalid_argument,
                                      "the buffer must be as long as the remote span"};
    at(now, [this, from, id, why] { end_read(*from, id, why); });
    return;
  }
  if (own) {
    at(now, [this, from, id, what] {
      const auto open = from->reads.find(id);
      if (open != from->reads.end()) end_read(*from, id, copy_from(*from, what, open->second.into));
    });
    return;
  }
  const size_t side = links.at(link->second).side_of(*from);
  travel(link->second, side, &loop_end::bulk, transfer(what.length),
         [this, link = link->second, side, id, what] { finish_read(link, side, id, what); });
  from->reads.at(id).deadline = at(now + deadline, [this, from, id] {
    end_read(*from, id, failure{error_code::deadline_exceeded, "read not done in time"});
  });
}

void loop_world::finish_read(uint64_t link, size_t side, uint64_t id, const remote_span& what) {
  loop_link* found = find(link);
  if (found == nullptr) return;
  const std::shared_ptr<loop_member> reader = found->ends[side].member;
  const std::shared_ptr<loop_member> owner = found->ends[1 - side].member;
  const auto open = reader->reads.find(id);
  // a dead owner answers nothing; the news of its death ends the read
  if (open == reader->reads.end() || !owner->alive()) return;
  end_read(*reader, id, copy_from(*owner, what, open->second.into));
}

void loop_world::end_read(loop_member& member, uint64_t id, const result<void>& how) {
  const auto open = member.reads.find(id);
  if (open == member.reads.end()) return;
  const loop_read pending = std::move(open->second);
  member.reads.erase(open);
  events.erase(pending.deadline);  // an event left behind would keep an idle network busy
  ++member.stats.reads;
  if (how) member.stats.read_bytes += pending.into.size();
  pending.done(how);
}

}  // namespace deepinfer::net
