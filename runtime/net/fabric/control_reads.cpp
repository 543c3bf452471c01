// One-sided reads, as the control lane sees them: find out what the region is, hand the read to
// the bulk lane, end it once.
#include "runtime/net/fabric/control_lane.hpp"

#include <cstring>

namespace deepinfer::net {
namespace {

constexpr uint32_t max_attempts = 3;  // of a read whose connection breaks

result<void> check_range(const remote_span& what, uint64_t region_bytes) {
  if (what.offset <= region_bytes && what.length <= region_bytes - what.offset) return {};
  return failure{error_code::invalid_argument, "read of " + std::to_string(what.length) +
                                                   " bytes at " + std::to_string(what.offset) +
                                                   " leaves the region of " +
                                                   std::to_string(region_bytes)};
}

failure no_region() {
  return {error_code::invalid_argument, "the peer has no such region: it was unregistered"};
}

}  // namespace

void control_lane::read(const node_id& from,
                        const remote_span& what,
                        std::span<std::byte> into,
                        std::chrono::milliseconds deadline,
                        read_done done) {
  auto state = std::make_shared<read_state>(
      read_state{from, what, into, std::chrono::steady_clock::now() + deadline, std::move(done)});
  // never from inside the call: `done` may come at once
  const bool taken = tasks_.push([this, state] {
    const uint64_t id = ++numbers_;
    reads_.emplace(id, std::move(*state));
    begin_read(id);
  });
  if (!taken) state->done(failure{error_code::cancelled, "this node stops"});
}

void control_lane::begin_read(uint64_t id) {
  read_state& read = reads_.at(id);
  if (read.into.size() != read.what.length)
    return end_read(
        id, failure{error_code::invalid_argument, "the buffer must be as long as the remote span"});
  if (read.from == config_.node) return read_own(id);
  const auto link = up_.find(read.from);
  if (link == up_.end() || link->second->doomed)
    return end_read(id,
                    failure{error_code::unreachable, "no link to node " + to_string(read.from)});
  const auto& known = known_regions_[read.from];
  if (const auto region = known.find(read.what.region); region != known.end())
    return post_read(id, region->second);
  ask_region(*link->second, read.what.region, id);
}

void control_lane::read_own(uint64_t id) {
  read_state& read = reads_.at(id);
  const auto region = bulk_.regions().find(read.what.region);
  if (!region) return end_read(id, no_region());
  if (auto fits = check_range(read.what, region->info.length); !fits) return end_read(id, fits);
  if (read.what.length > 0)
    std::memmove(read.into.data(), region->bytes.data() + read.what.offset, read.what.length);
  end_read(id, {});
}

void control_lane::ask_region(fabric_link& link, uint64_t key, uint64_t read) {
  auto& waiters = region_waiters_[{link.peer.from, key}];
  waiters.push_back(read);
  if (waiters.size() == 1)
    send_own(link, wire::frame_kind::region_query, key, {}, wire::frame_header::request_flag);
}

void control_lane::on_region_query(fabric_link& link, const incoming_frame& frame) {
  std::vector<std::byte> body;
  if (const auto region = bulk_.regions().find(frame.header.aux)) {
    body.resize(sizeof region->info);
    std::memcpy(body.data(), &region->info, sizeof region->info);
  }
  send_own(link, wire::frame_kind::region_reply, frame.header.aux, std::move(body),
           wire::frame_header::response_flag);
}

void control_lane::on_region_reply(fabric_link& link, const incoming_frame& frame) {
  const uint64_t key = frame.header.aux;
  const auto waiting = region_waiters_.extract({link.peer.from, key});
  if (waiting.empty()) return;  // all who asked have ended
  region_info region;
  const bool known = frame.body.size() == sizeof region;
  if (!known && !frame.body.empty())
    doom(link, {error_code::corrupt, "malformed answer about a region"});
  if (known) {
    std::memcpy(&region, frame.body.data(), sizeof region);
    known_regions_[link.peer.from][key] = region;
  }
  for (const uint64_t id : waiting.mapped()) {
    if (!reads_.contains(id)) continue;
    if (known)
      post_read(id, region);
    else
      end_read(id, no_region());
  }
}

void control_lane::post_read(uint64_t id, const region_info& region) {
  read_state& read = reads_.at(id);
  if (auto fits = check_range(read.what, region.length); !fits) return end_read(id, fits);
  if (read.what.length == 0) return end_read(id, {});
  auto request = std::make_shared<bulk_read>();
  request->into = read.into;
  request->address = region.base + read.what.offset;
  request->key = region.key;
  request->deadline = read.deadline;
  request->done = [this, id](bulk_outcome outcome, const failure& why) {
    post([this, id, outcome, why] { bulk_ended(id, outcome, why); });
  };
  read.on_bulk = true;
  ++read.attempts;
  bulk_.read(up_.at(read.from)->number, std::move(request));
}

void control_lane::bulk_ended(uint64_t id, bulk_outcome outcome, const failure& why) {
  const auto found = reads_.find(id);
  if (found == reads_.end()) return;
  read_state& read = found->second;
  if (outcome == bulk_outcome::done) return end_read(id, {});
  if (outcome == bulk_outcome::failed) return end_read(id, why);
  // The peer closed the bulk connection: to withdraw memory, or because it died.
  if (read.attempts >= max_attempts)
    return end_read(id, failure{error_code::unreachable, "the bulk lane broke several times"});
  read.on_bulk = false;
  known_regions_[read.from].erase(read.what.region);
  begin_read(id);
}

void control_lane::end_read(uint64_t id, const result<void>& how) {
  auto node = reads_.extract(id);
  if (node.empty()) return;
  read_state& read = node.mapped();
  stats_.reads.fetch_add(1);
  if (how) stats_.read_bytes.fetch_add(read.what.length);
  read.done(how);
}

/// Ends the reads that wait for an answer about a region; the bulk lane ends its own.
void control_lane::end_waiting_reads(const node_id& peer, const failure& why) {
  std::vector<uint64_t> waiting;
  for (auto it = region_waiters_.begin(); it != region_waiters_.end();) {
    if (it->first.first == peer) {
      waiting.insert(waiting.end(), it->second.begin(), it->second.end());
      it = region_waiters_.erase(it);
    } else {
      ++it;
    }
  }
  for (const uint64_t id : waiting) end_read(id, why);
}

}  // namespace deepinfer::net
