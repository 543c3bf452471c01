#include "runtime/net/loop/loop_world.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace deepinfer::net {

uint64_t loop_world::random() {
  // splitmix64: the same numbers on every platform, unlike the distributions of the library
  uint64_t z = (random_state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

loop_time loop_world::draw(loop_time bound) {
  if (bound.count() <= 0) return loop_time{0};
  return loop_time{static_cast<int64_t>(random() % (static_cast<uint64_t>(bound.count()) + 1))};
}

loop_time loop_world::transfer(size_t bytes) const {
  const double seconds = static_cast<double>(bytes) /
                         static_cast<double>(std::max<uint64_t>(options.bytes_per_second, 1));
  return loop_time{static_cast<int64_t>(seconds * 1e9)};
}

loop_ticket loop_world::at(loop_time when, loop_event what) {
  const loop_ticket ticket{std::max(when, now), ++events_made};
  events.emplace(ticket, std::move(what));
  return ticket;
}

uint64_t loop_world::cut_between(const std::string& a, const std::string& b) const {
  const auto found = cuts.find(std::minmax(a, b));
  return found == cuts.end() ? 0 : found->second;
}

uint64_t loop_world::cut_of(const loop_link& link) const {
  return cut_between(link.ends[0].member->config.address, link.ends[1].member->config.address);
}

loop_link* loop_world::find(uint64_t id) {
  const auto found = links.find(id);
  return found == links.end() ? nullptr : &found->second;
}

void loop_world::travel(
    uint64_t link, size_t side, loop_lane loop_end::*lane, loop_time extra, loop_event what) {
  loop_lane& road = links.at(link).ends[side].*lane;
  road.items.push_back(std::move(what));
  road.last_arrival = std::max(now + one_way(), road.last_arrival) + extra;
  at(road.last_arrival, [this, link, side, lane] { pump(link, side, lane); });
}

void loop_world::pump(uint64_t link, size_t side, loop_lane loop_end::*lane) {
  loop_link* found = find(link);
  if (found == nullptr) return;
  loop_lane& road = found->ends[side].*lane;
  if (cut_of(*found) != 0) {
    ++road.stalled;
    return;
  }
  DEEPINFER_CHECK(!road.items.empty());
  const loop_event item = std::move(road.items.front());
  road.items.pop_front();
  item();
}

bool loop_world::rise(uint64_t link, size_t side) {
  loop_link* found = find(link);
  if (found == nullptr) return false;
  loop_end& end = found->ends[side];
  if (!end.member->alive() || end.notice) return false;
  const loop_node& other = found->ends[1 - side].member->config;
  end.up = true;
  end.member->links[other.id] = link;
  ++end.member->stats.links_up;
  end.member->handler->on_peer_up({other.id, other.epoch, other.address});
  return true;
}

void loop_world::fall(uint64_t link, size_t side, const failure& why) {
  loop_link* found = find(link);
  if (found == nullptr) return;
  loop_end& end = found->ends[side];
  const std::shared_ptr<loop_member> member = end.member;
  const node_id peer = found->ends[1 - side].member->config.id;
  const bool was_up = std::exchange(end.up, false);
  if (was_up) member->links.erase(peer);
  if (!found->ends[1 - side].up) links.erase(link);
  if (!was_up || !member->alive()) return;

  std::vector<uint64_t> open;
  for (const auto& [id, pending] : member->reads)
    if (pending.link == link) open.push_back(id);
  for (const uint64_t id : open)
    end_read(*member, id, failure{error_code::unreachable, "peer gone: " + why.detail});
  if (member->alive()) member->handler->on_peer_down(peer, why);
}

void loop_world::notify(uint64_t link, size_t side, const failure& why) {
  at(now + one_way(), [this, link, side, why] { take_notice(link, side, why); });
}

void loop_world::take_notice(uint64_t link, size_t side, const failure& why) {
  loop_link* found = find(link);
  if (found == nullptr) return;
  if (cut_of(*found) != 0)
    found->ends[side].notice = why;
  else
    fall(link, side, why);
}

void loop_world::end_life(const std::shared_ptr<loop_member>& member,
                          const failure& why,
                          const std::optional<failure>& own) {
  const auto open_links = member->links;
  transport_handler* handler = member->handler;
  if (!own) member->handler = nullptr;
  for (const auto& [peer, link] : open_links) {
    const size_t side = links.at(link).side_of(*member);
    notify(link, 1 - side, why);
    // an own end that is down before the other one rose must not let it rise later
    if (!links.at(link).ends[1 - side].up) links.at(link).ends[1 - side].notice = why;
    links.at(link).ends[side].up = false;
  }
  member->links.clear();
  listening.erase(member->config.address);
  if (!own) {
    member->reads.clear();
    return;
  }
  while (!member->reads.empty()) end_read(*member, member->reads.begin()->first, *own);
  for (const auto& [peer, link] : open_links) handler->on_peer_down(peer, *own);
  member->handler = nullptr;
}

loop_network::loop_network(uint64_t seed, const loop_options& options)
    : world_(std::make_shared<loop_world>(seed, options)) {}

loop_network::~loop_network() {
  // events hold members, members may hold tasks of actors: let go before the world does
  world_->events.clear();
}

std::unique_ptr<transport> loop_network::make_transport(const loop_node& node) {
  return make_loop_transport(world_, node);
}

std::chrono::nanoseconds loop_network::now() const {
  return world_->now;
}

std::optional<std::chrono::nanoseconds> loop_network::next_event_time() const {
  if (world_->events.empty()) return std::nullopt;
  return world_->events.begin()->first.first;
}

bool loop_network::run_one() {
  if (world_->events.empty()) return false;
  const auto first = world_->events.begin();
  world_->now = first->first.first;
  const loop_event what = std::move(first->second);
  world_->events.erase(first);
  what();
  return true;
}

void loop_network::run_until(std::chrono::nanoseconds time) {
  while (next_event_time().value_or(time + std::chrono::nanoseconds{1}) <= time) run_one();
  world_->now = std::max(world_->now, time);
}

void loop_network::partition(const std::set<std::string>& a, const std::set<std::string>& b) {
  loop_world& world = *world_;
  const uint64_t number = ++world.cuts_made;
  for (const std::string& left : a)
    for (const std::string& right : b)
      if (left != right) world.cuts.emplace(std::minmax(left, right), number);

  // The last sign of life was up to one heartbeat ago, independently on both sides.
  const failure silent{error_code::unreachable, "no sign of life"};
  for (const auto& [id, link] : world.links) {
    if (world.cut_of(link) != number) continue;
    for (const size_t side : {0, 1}) {
      const loop_time when =
          world.now + world.options.dead_after - world.draw(world.options.heartbeat_interval);
      world.at(when, [&world, number, silent, id = id, side] {
        const loop_link* still = world.find(id);
        if (still == nullptr || world.cut_of(*still) != number) return;
        world.fall(id, side, silent);
        world.take_notice(id, 1 - side, {error_code::unreachable, "the peer gave the link up"});
      });
    }
  }
}

void loop_network::heal() {
  loop_world& world = *world_;
  world.cuts.clear();
  for (auto& [id, link] : world.links) {
    for (const size_t side : {0, 1}) {
      loop_end& end = link.ends[side];
      for (const auto lane : {&loop_end::frames, &loop_end::bulk}) {
        loop_lane& road = end.*lane;
        for (; road.stalled > 0; --road.stalled)
          world.at(world.now + world.options.delay,
                   [&world, id = id, side, lane] { world.pump(id, side, lane); });
        road.last_arrival = std::max(road.last_arrival, world.now + world.options.delay);
      }
      if (end.notice) world.notify(id, side, *end.notice);
    }
  }
}

void loop_network::kill(const std::string& address) {
  const auto found = world_->listening.find(address);
  if (found == world_->listening.end()) return;
  const std::shared_ptr<loop_member> member = found->second;
  world_->end_life(member, {error_code::unreachable, "connection broken"}, std::nullopt);
}

size_t loop_network::regions() const {
  return world_->regions;
}

}  // namespace deepinfer::net
