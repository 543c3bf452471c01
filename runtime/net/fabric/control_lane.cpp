#include "runtime/net/fabric/control_lane.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace deepinfer::net {
namespace {

constexpr size_t queue_entries = 16384;
constexpr auto retry_blocked = std::chrono::milliseconds{1};

}  // namespace

control_lane::control_lane(const fabric_config& config,
                           std::string address,
                           fid_fabric& fabric,
                           acceptor& listener,
                           bulk_lane& bulk)
    : config_(config),
      address_(std::move(address)),
      fabric_(fabric),
      listener_(listener),
      bulk_(bulk) {}

result<void> control_lane::open(const fi_info& info) {
  info_.reset(fi_dupinfo(&info));
  if (!info_) return failure{error_code::no_capacity, "out of memory"};
  auto domain = open_domain(fabric_, *info_);
  if (!domain) return domain.error();
  domain_ = *std::move(domain);
  auto events = open_event_queue(fabric_);
  if (!events) return events.error();
  events_ = *std::move(events);
  auto completions = open_completion_queue(*domain_, queue_entries);
  if (!completions) return completions.error();
  completions_ = *std::move(completions);
  environment_.domain = domain_.get();
  environment_.local_regions = (info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
  environment_.inject_bytes = std::min<size_t>(info_->tx_attr->inject_size, 128);
  return {};
}

void control_lane::start(transport_handler& handler) {
  handler_ = &handler;
  resolver_->lane = this;
  thread_ = start_thread("net-control", [this] { run(); });
}

void control_lane::stop() {
  if (!thread_.joinable()) return;
  DEEPINFER_CHECK(!on_thread());
  stopping_.store(true);
  waker_.wake();
  thread_.join();
}

transport_stats control_lane::stats() const {
  transport_stats out;
  out.frames_sent = stats_.frames_sent;
  out.frames_received = stats_.frames_received;
  out.bytes_sent = stats_.bytes_sent;
  out.bytes_received = stats_.bytes_received;
  out.reads = stats_.reads;
  out.read_bytes = stats_.read_bytes;
  out.links_up = stats_.links_up;
  out.links_refused = stats_.links_refused;
  out.frames_corrupt = stats_.frames_corrupt;
  return out;
}

void control_lane::post(std::function<void()> task) {
  tasks_.push(std::move(task));
}

void control_lane::drop(const node_id& peer, const failure& why) {
  post([this, peer, why] {
    if (const auto found = up_.find(peer); found != up_.end()) doom(*found->second, why);
  });
}

void control_lane::run() {
  thread_id_.store(std::this_thread::get_id());
  now_ = std::chrono::steady_clock::now();
  next_tick_ = now_;
  while (!stopping_.load()) {
    step(std::chrono::steady_clock::now());
    sleep();
  }
  now_ = std::chrono::steady_clock::now();
  shut_down();
  thread_id_.store({});
}

void control_lane::step(steady_time now) {
  now_ = now;
  flush_outbox();
  reap();
  for (const auto& task : tasks_.take()) {
    task();
    reap();
  }
  if (completions_ready_) drain_completions();
  if (events_ready_) drain_events();
  for (const uint64_t number : std::exchange(blocked_, {}))
    if (const auto found = links_.find(number); found != links_.end()) flush(*found->second);
  reap();
  run_timers();
  reap();
}

void control_lane::sleep() {
  // Only what was touched must be armed again: a queue armed before still is.
  std::array<fid*, 1> completions{&completions_->fid};
  std::array<fid*, 1> events{&events_->fid};
  if (completions_ready_) completions_ready_ = fi_trywait(&fabric_, completions.data(), 1) != 0;
  if (events_ready_) events_ready_ = fi_trywait(&fabric_, events.data(), 1) != 0;
  if (completions_ready_ || events_ready_) return;
  waker_.prepare();
  if (tasks_.empty() && outbox_.empty() && !stopping_.load()) {
    std::array<pollfd, 3> fds{pollfd{wait_descriptor(completions_->fid), POLLIN, 0},
                              pollfd{wait_descriptor(events_->fid), POLLIN, 0},
                              pollfd{waker_.fd(), POLLIN, 0}};
    (void)::poll(fds.data(), fds.size(), sleep_ms());
    completions_ready_ = fds[0].revents != 0;
    events_ready_ = fds[1].revents != 0;
  }
  waker_.awake();
}

int control_lane::sleep_ms() const {
  auto next = links_.empty() ? steady_time::max() : next_tick_;
  if (!blocked_.empty()) next = std::min(next, now_ + retry_blocked);
  for (const auto& [number, dial] : dials_) next = std::min(next, dial.deadline);
  for (const auto& [number, read] : reads_)
    if (!read.on_bulk) next = std::min(next, read.deadline);
  if (next == steady_time::max()) return -1;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - now_).count();
  return static_cast<int>(std::clamp<int64_t>(wait, 0, 60'000));
}

/// True if there were any.
bool control_lane::drain_completions() {
  std::array<fi_cq_data_entry, 16> entries;
  for (bool any = false;; any = true) {
    const ssize_t got = fi_cq_read(completions_.get(), entries.data(), entries.size());
    if (got == -FI_EAGAIN) return any;
    if (got > 0) {
      for (ssize_t i = 0; i < got; ++i) on_completion(entries[static_cast<size_t>(i)]);
      // a short batch was all there is: `fi_trywait` finds what has come since
      if (got < static_cast<ssize_t>(entries.size())) return true;
    } else if (got == -FI_EAVAIL) {
      on_failed_completion();
    } else {
      return any;
    }
  }
}

void control_lane::on_completion(const fi_cq_data_entry& entry) {
  auto* const op = static_cast<link_op*>(entry.op_context);
  fabric_link& link = *op->link;
  if (op->what == link_op::kind::transmit) {
    link.sender.completed(*static_cast<transmit_op*>(op));
    if (!link.doomed) flush(link);
  } else {
    auto& received = *static_cast<receive_op*>(op);
    --link.posted;
    if (link.phase == link_phase::connecting && !link.doomed) {
      link.early.emplace_back(&received, entry.len);
      events_ready_ = true;
    } else if (!link.doomed && link.phase != link_phase::closed) {
      on_bytes(link, {received.buffer.get(), entry.len});
      if (!link.doomed && !post_receive(link, received))
        doom(link, {error_code::unreachable, "the connection takes no receive buffer"});
    }
  }
  release(link);
  reap();
}

void control_lane::on_failed_completion() {
  fi_cq_err_entry error{};
  if (fi_cq_readerr(completions_.get(), &error, 0) <= 0 || error.op_context == nullptr) return;
  auto* const op = static_cast<link_op*>(error.op_context);
  fabric_link& link = *op->link;
  if (op->what == link_op::kind::transmit)
    link.sender.completed(*static_cast<transmit_op*>(op));
  else
    --link.posted;
  if (error.err == FI_ETRUNC) {
    stats_.frames_corrupt.fetch_add(1);
    doom(link, {error_code::corrupt, "a frame was longer than the eager limit"});
  } else if (link.phase == link_phase::connecting) {
    events_ready_ = true;  // the event that follows says why
  } else {
    doom(link, {error_code::unreachable, "connection broken"});
  }
  release(link);
  reap();
}

/// Forgets a closed link once libfabric holds nothing of it any more.
void control_lane::release(fabric_link& link) {
  if (link.phase == link_phase::closed && link.posted == 0 && link.sender.under_way() == 0)
    closed_.erase(link.number);
}

void control_lane::drain_events() {
  alignas(fi_eq_cm_entry) std::array<std::byte, sizeof(fi_eq_cm_entry) + 2 * max_hello_bytes> entry;
  for (;;) {
    uint32_t what = 0;
    errno = 0;  // see `acceptor::run`
    const ssize_t got = fi_eq_read(events_.get(), &what, entry.data(), entry.size(), 0);
    if (got > 0) {
      on_event(what, std::span{entry}.first(static_cast<size_t>(got)));
    } else if (got == -FI_EAVAIL) {
      fi_eq_err_entry error{};
      if (fi_eq_readerr(events_.get(), &error, 0) <= 0) return;
      on_event_error(error);
    } else {
      return;
    }
    reap();
  }
}

void control_lane::on_event(uint32_t what, std::span<const std::byte> entry) {
  if (entry.size() < sizeof(fi_eq_cm_entry)) return;
  fi_eq_cm_entry head;
  std::memcpy(&head, entry.data(), sizeof head);
  const auto found = endpoints_.find(head.fid);
  if (found == endpoints_.end()) return;  // closed meanwhile
  const link_ptr link = links_.at(found->second);
  if (what == FI_CONNECTED) on_connected(*link, entry.subspan(sizeof head));
  if (what == FI_SHUTDOWN) {
    drain_completions();  // what came before the end: frames, and maybe a goodbye
    doom(*link, {error_code::unreachable, "the peer closed the link"});
  }
}

void control_lane::on_event_error(const fi_eq_err_entry& error) {
  const auto found = endpoints_.find(error.fid);
  if (found == endpoints_.end()) return;
  fabric_link& link = *links_.at(found->second);
  if (link.phase != link_phase::connecting)
    return doom(link, {error_code::unreachable,
                       std::string{"connection broken: "} + fi_strerror(error.err)});
  if (error.err != FI_ECONNREFUSED)
    return doom(link, {error_code::unreachable, fi_strerror(error.err)});
  const std::span<const std::byte> data{static_cast<const std::byte*>(error.err_data),
                                        error.err_data == nullptr ? 0 : error.err_data_size};
  link.duplicate = is_refusal(data, refusal::itself);
  doom(link, read_refusal(data));
}

void control_lane::run_timers() {
  std::vector<uint64_t> late;
  for (const auto& [number, dial] : dials_)
    if (now_ >= dial.deadline) late.push_back(number);
  for (const uint64_t number : late) {
    const auto why = dials_.at(number).why;
    end_dial(number, why.value_or(failure{error_code::unreachable, "no answer in time"}));
  }
  late.clear();
  for (const auto& [number, read] : reads_)
    if (!read.on_bulk && now_ >= read.deadline) late.push_back(number);
  for (const uint64_t number : late)
    end_read(number, failure{error_code::deadline_exceeded, "read not done in time"});
  if (now_ >= next_tick_) tick();
}

void control_lane::tick() {
  const auto interval = config_.heartbeat_interval / 2;
  // When this process was stopped, its peers had no chance to be heard: give them one interval.
  const bool late = now_ > next_tick_ + config_.heartbeat_interval && !links_.empty();
  next_tick_ = now_ + interval;
  for (const auto& [number, link] : links_) {
    if (link->phase != link_phase::up) {
      if (now_ >= link->deadline)
        doom(*link, {error_code::unreachable, "no answer in time during the handshake"});
      continue;
    }
    if (!late && now_ - link->last_heard >= config_.dead_after) {
      doom(*link, {error_code::unreachable,
                   "no sign of life for " + std::to_string(config_.dead_after.count()) + " ms"});
    } else if (now_ - link->sender.last_sent() >= interval) {
      send_own(*link, wire::frame_kind::heartbeat, 0, {}, 0);
    }
  }
}

void control_lane::shut_down() {
  {
    const std::lock_guard lock{resolver_->mutex};
    resolver_->lane = nullptr;
  }
  flush_outbox();
  reap();
  const failure stops{error_code::cancelled, "this node stops"};
  for (const auto& [number, link] : links_)
    if (link->phase == link_phase::up) send_own(*link, wire::frame_kind::goodbye, 0, {}, 0);
  // before the links close, so that reads end as cancelled and not as unreachable
  bulk_.stop();
  for (const auto& task : tasks_.take()) task();  // the last words of the bulk lane
  tasks_.close();
  while (!reads_.empty()) end_read(reads_.begin()->first, stops);
  dials_.clear();
  for (const auto& [number, link] : links_) doom(*link, stops);
  reap();
  while (!closed_.empty() && drain_completions()) {
  }  // libfabric hands back what the links had under way
  fetches_.clear();
}

void control_lane::doom(fabric_link& link, const failure& why) {
  if (link.doomed || link.phase == link_phase::closed) return;
  link.doomed = why;
  link.gate->open.store(false);
  doomed_.push_back(link.number);
}

void control_lane::reap() {
  while (!doomed_.empty()) {
    const uint64_t number = doomed_.back();
    doomed_.pop_back();
    if (const auto found = links_.find(number); found != links_.end()) {
      const link_ptr link = found->second;
      close_link(*link);
    }
  }
}

void control_lane::close_link(fabric_link& link) {
  const link_phase was = std::exchange(link.phase, link_phase::closed);
  const failure why = *link.doomed;
  link_ptr keep = links_.at(link.number);
  links_.erase(link.number);
  blocked_.erase(link.number);
  if (link.endpoint) {
    endpoints_.erase(&link.endpoint->fid);
    (void)fi_shutdown(link.endpoint.get(), 0);  // lets what is buffered go out
    link.endpoint.reset();
    completions_ready_ = true;  // flushed operations
  }
  link.early.clear();
  link.sender.clear();
  if (link.posted > 0 || link.sender.under_way() > 0) closed_.emplace(link.number, keep);
  // answers to reads of the peer may be under way from memory that the link keeps alive
  bulk_.detach(link.number);
  if (was == link_phase::up) {
    up_.erase(link.peer.from);
    gates_.erase(link.peer.from);
    known_regions_.erase(link.peer.from);
    end_waiting_reads(link.peer.from, {error_code::unreachable, "peer gone: " + why.detail});
    handler_->on_peer_down(link.peer.from, why);
    return;
  }
  if (link.dial != 0) return attempt_failed(link, why);
  if (link.duplicate) return;
  note_refused(why.detail + " peer=" + link.peer.address);
}

}  // namespace deepinfer::net
