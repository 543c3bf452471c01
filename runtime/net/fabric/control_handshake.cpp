// From a dial or a connection request to a link that is up.
#include "runtime/net/fabric/control_lane.hpp"

#include <algorithm>
#include <cstring>

namespace deepinfer::net {
namespace {

constexpr size_t proof_buffer_bytes = 512;  // nobody sends more before it is known
// what a proof's `aux` says
constexpr uint64_t verdict_link = 0;
constexpr uint64_t verdict_duplicate = 1;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void control_lane::dial(const std::string& address) {
  post([this, address] { begin_dial(address); });
}

void control_lane::begin_dial(const std::string& address) {
  if (address == address_) return;
  for (const auto& [peer, link] : up_)
    if (link->peer.address == address) return;
  for (const auto& [number, dial] : dials_)
    if (dial.address == address) return;  // one answer for both
  const auto where = split_address(address);
  if (!where) return handler_->on_dial_failed(address, where.error());
  if (dials_.size() >= config_.max_handshakes)
    return handler_->on_dial_failed(
        address, {error_code::no_capacity, "too many dials at a time: raise max_handshakes"});
  const uint64_t number = ++numbers_;
  dial_state& dial = dials_[number];
  dial.address = address;
  dial.deadline = now_ + config_.dial_timeout;
  if (const auto numeric = numeric_address(*where)) {
    dial.candidates.push_back(*numeric);
    try_next(number);
  } else {
    resolve(number, *where);
  }
}

/// The system's resolver blocks for as long as it likes: on a thread that nobody waits for.
void control_lane::resolve(uint64_t number, const host_and_port& where) {
  {
    const std::lock_guard lock{resolver_->mutex};
    if (resolver_->open >= config_.max_resolving) {
      end_dial(number, {error_code::no_capacity, "too many host names are being looked up"});
      return;
    }
    ++resolver_->open;
  }
  start_thread("net-resolve", [state = resolver_, number, where] {
    auto found = look_up(where);
    const std::lock_guard lock{state->mutex};
    --state->open;
    if (state->lane == nullptr) return;
    control_lane& lane = *state->lane;
    lane.post([&lane, number, found = std::move(found)] {
      const auto dial = lane.dials_.find(number);
      if (dial == lane.dials_.end()) return;
      if (!found) return lane.end_dial(number, found.error());
      dial->second.candidates = *found;
      lane.try_next(number);
    });
  }).detach();
}

void control_lane::try_next(uint64_t number) {
  dial_state& dial = dials_.at(number);
  if (dial.next == dial.candidates.size()) {
    if (dial.why) return end_dial(number, *dial.why);
    dials_.erase(number);  // only led to this node itself
    return;
  }
  const socket_address target = dial.candidates[dial.next++];
  const auto share =
      (dial.deadline - now_) / static_cast<int>(dial.candidates.size() - dial.next + 1);
  const ofi_info info = info_towards(*info_, target);
  const auto link = std::make_shared<fabric_link>(++numbers_, link_role::dialer, environment_);
  link->dial = number;
  link->target = target;
  link->deadline = now_ + share;
  dial.link = link->number;
  links_[link->number] = link;
  next_tick_ = std::min(next_tick_, now_ + config_.heartbeat_interval / 2);
  if (auto opened = open_endpoint_of(*link, *info); !opened) return doom(*link, opened.error());
  const hello own = own_hello();
  link->own_hello = write_hello(own, config_.cluster, config_.secret);
  const int code = fi_connect(link->endpoint.get(), info->dest_addr, link->own_hello.data(),
                              link->own_hello.size());
  events_ready_ = true;
  if (code != 0) doom(*link, ofi_failure("cannot connect", code));
}

void control_lane::attempt_failed(const fabric_link& link, const failure& why) {
  const auto found = dials_.find(link.dial);
  if (found == dials_.end()) return;
  dial_state& dial = found->second;
  if (dial.awaited) return;  // the other link decides, or the deadline
  if (!link.duplicate && (!dial.why || why.code != error_code::unreachable)) dial.why = why;
  try_next(link.dial);
}

void control_lane::end_dial(uint64_t number, failure why) {
  const auto found = dials_.find(number);
  if (found == dials_.end()) return;
  const std::string address = found->second.address;
  const uint64_t link = found->second.link;
  dials_.erase(found);
  if (const auto open = links_.find(link);
      open != links_.end() && open->second->phase != link_phase::up)
    doom(*open->second, why);
  handler_->on_dial_failed(address, why);
}

hello control_lane::own_hello() const {
  hello out{lane::control, config_.node, config_.epoch, {}, address_, 0};
  const auto nonce = draw_nonce();
  DEEPINFER_CHECK(nonce.has_value());  // a system without randomness proves nothing to anybody
  out.nonce = *nonce;
  return out;
}

void control_lane::take_request(std::shared_ptr<connection_request> request) {
  auto peer = read_hello(request->data(), config_.cluster, config_.secret);
  if (!peer) {
    const bool foreign = peer.error().code == error_code::unauthenticated;
    request->reject(write_refusal(foreign ? refusal::cluster : refusal::protocol));
    return note_refused(peer.error().detail);
  }
  post(
      [this, request = std::move(request), peer = *std::move(peer)] { on_request(request, peer); });
}

void control_lane::on_request(const std::shared_ptr<connection_request>& request,
                              const hello& peer) {
  if (peer.kind == lane::bulk) return on_bulk_request(request, peer);
  if (peer.kind == lane::control) return on_control_request(*request, peer);
  refuse(*request, refusal::protocol, {error_code::corrupt, "an answer instead of a request"});
}

void control_lane::refuse(connection_request& request, refusal why, const failure& detail) {
  request.reject(write_refusal(why));
  if (why != refusal::itself) note_refused(detail.detail);
}

/// However many strangers knock, one report of them waits at a time.
void control_lane::note_refused(const std::string& why) {
  stats_.links_refused.fetch_add(1);
  if (refused_unreported_.fetch_add(1) > 0) return;
  post([this, why] {
    const uint64_t count = refused_unreported_.exchange(0);
    event("net.link.refused", "count=" + std::to_string(count) + " why=" + why);
  });
}

void control_lane::on_control_request(connection_request& request, const hello& peer) {
  if (peer.from == config_.node) return refuse(request, refusal::itself, {});
  const auto proving =
      static_cast<size_t>(std::count_if(links_.begin(), links_.end(), [](const auto& entry) {
        return entry.second->phase != link_phase::up;
      }));
  if (links_.size() >= config_.max_links || proving >= config_.max_handshakes)
    return refuse(request, refusal::full, {error_code::no_capacity, "link table full"});
  const auto link = std::make_shared<fabric_link>(++numbers_, link_role::acceptor, environment_);
  link->peer = peer;
  link->deadline = now_ + config_.dial_timeout;
  links_[link->number] = link;
  next_tick_ = std::min(next_tick_, now_ + config_.heartbeat_interval / 2);
  if (auto opened = open_endpoint_of(*link, request.info()); !opened)
    return doom(*link, opened.error());
  link->own_hello = write_hello(own_hello(), config_.cluster, config_.secret);
  link->about = transcript(text_of(request.data().first(peer.wire_bytes)), link->own_hello);
  const int code = fi_accept(link->endpoint.get(), link->own_hello.data(), link->own_hello.size());
  events_ready_ = true;
  if (code != 0) return doom(*link, ofi_failure("cannot accept", code));
  request.accepted();
}

void control_lane::on_bulk_request(const std::shared_ptr<connection_request>& request,
                                   const hello& peer) {
  // The control link may still be waiting for the other side's proof here: the dialer can be
  // ahead. The transcript shows that it took part in the exchange.
  for (const auto& [number, link] : links_) {
    if (link->role != link_role::acceptor || link->peer.from != peer.from || link->doomed) continue;
    if (!same_digest(link->about, peer.nonce)) continue;
    bulk_.accept({number, link_role::acceptor, link->about, {}}, peer.epoch, request);
    return;
  }
  request->reject(write_refusal(refusal::no_link));
}

result<void> control_lane::open_endpoint_of(fabric_link& link, fi_info& info) {
  auto endpoint = open_endpoint(*domain_, info, *events_, *completions_, nullptr);
  if (!endpoint) return endpoint.error();
  link.endpoint = *std::move(endpoint);
  endpoints_[&link.endpoint->fid] = link.number;
  for (uint32_t i = 0; i <= config_.receive_buffers; ++i) {
    auto op = std::make_unique<receive_op>();
    op->link = &link;
    // receives are used in order: the first frame is a proof, and no stranger needs more
    op->size = i == 0 ? proof_buffer_bytes : sizeof(wire::frame_header) + limits::eager_frame_bytes;
    op->buffer = allocate_aligned(op->size);
    if (!op->buffer || !post_receive(link, *op))
      return failure{error_code::no_capacity, "no memory for receive buffers"};
    link.buffers.push_back(std::move(op));
  }
  return {};
}

bool control_lane::post_receive(fabric_link& link, receive_op& op) {
  if (op.size == proof_buffer_bytes && link.frames_received > 0) return true;  // served its time
  if (environment_.local_regions && !op.region) {
    fid_mr* region = nullptr;
    if (fi_mr_reg(domain_.get(), op.buffer.get(), op.size, FI_RECV, 0, 0, 0, &region, nullptr) != 0)
      return false;
    op.region.reset(region);
  }
  void* descriptor = op.region ? fi_mr_desc(op.region.get()) : nullptr;
  if (fi_recv(link.endpoint.get(), op.buffer.get(), op.size, descriptor, FI_ADDR_UNSPEC,
              &op.context) != 0)
    return false;
  ++link.posted;
  return true;
}

void control_lane::on_connected(fabric_link& link, std::span<const std::byte> data) {
  if (link.phase != link_phase::connecting || link.doomed) return;
  if (link.role == link_role::dialer) {
    const auto peer = read_hello(data, config_.cluster, config_.secret);
    if (!peer) return doom(link, peer.error());
    if (peer->kind != lane::control || peer->from == config_.node)
      return doom(link, {error_code::corrupt, "the peer answers for another"});
    link.peer = *peer;
    link.about = transcript(link.own_hello, text_of(data.first(peer->wire_bytes)));
  }
  link.phase = link_phase::proving;
  link.last_heard = now_;
  if (config_.node > link.peer.from) send_proof(link, verdict_link);
  for (const auto& [op, length] : std::exchange(link.early, {})) {
    if (link.doomed) return;
    on_bytes(link, {op->buffer.get(), length});
    if (!link.doomed && !post_receive(link, *op))
      doom(link, {error_code::unreachable, "the connection takes no receive buffer"});
  }
}

void control_lane::send_proof(fabric_link& link, uint64_t verdict) {
  const digest256 proof = link_proof(config_.secret, link.role, link.about);
  send_own(link, wire::frame_kind::auth, verdict, {proof.begin(), proof.end()}, 0);
}

/// True if another link to the same peer is up, or is on its way and preferred: one that this
/// node, which decides, has dialled itself.
bool control_lane::has_other_link(const fabric_link& link) const {
  return std::any_of(links_.begin(), links_.end(), [&](const auto& entry) {
    const fabric_link& other = *entry.second;
    if (&other == &link || other.doomed || other.peer.from != link.peer.from) return false;
    return other.phase == link_phase::up ||
           (other.phase == link_phase::proving && other.role == link_role::dialer);
  });
}

void control_lane::on_proof(fabric_link& link, const incoming_frame& frame) {
  const link_role other = link.role == link_role::dialer ? link_role::acceptor : link_role::dialer;
  if (!same_digest(frame.body, link_proof(config_.secret, other, link.about)))
    return doom(link, {error_code::unauthenticated, "the peer's proof is wrong"});
  const bool decides = config_.node < link.peer.from;
  const bool refused = decides ? has_other_link(link) : frame.header.aux == verdict_duplicate;
  if (decides) send_proof(link, refused ? verdict_duplicate : verdict_link);
  if (!refused) return go_up(link);
  link.duplicate = true;
  const auto dial = dials_.find(link.dial);
  if (dial != dials_.end()) {
    if (up_.contains(link.peer.from))
      dials_.erase(dial);
    else
      dial->second = {
          dial->second.address,
          dial->second.deadline,
          {},
          0,
          0,
          link.peer.from,
          failure{error_code::unreachable, "the peer still holds the former link: dial again"}};
  }
  doom(link, {error_code::unreachable, "there is a link to this peer already"});
}

void control_lane::go_up(fabric_link& link) {
  if (up_.contains(link.peer.from))  // only a peer that breaks the protocol gets here
    return doom(link, {error_code::corrupt, "the peer wants a second link"});
  link.phase = link_phase::up;
  up_[link.peer.from] = links_.at(link.number);
  gates_.insert(link.peer.from, link.gate);
  stats_.links_up.fetch_add(1);
  dials_.erase(link.dial);
  std::erase_if(dials_, [&](const auto& entry) { return entry.second.awaited == link.peer.from; });
  bulk_.attach({link.number, link.role, link.about, link.target});
  handler_->on_peer_up({link.peer.from, link.peer.epoch, link.peer.address});
}

}  // namespace deepinfer::net
