#include "runtime/net/fabric/bulk_lane.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <future>

namespace deepinfer::net {
namespace {

constexpr uint64_t waker_mark = 0;  // in the epoll data; links count from 1
constexpr uint64_t events_mark = UINT64_MAX;
constexpr auto retry_blocked = std::chrono::milliseconds{1};

bool watch(const owned_fd& set, int fd, uint64_t mark) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = mark;
  return ::epoll_ctl(set.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

result<std::unique_ptr<bulk_lane>> bulk_lane::open(const fabric_config& config,
                                                   fid_fabric& fabric,
                                                   const fi_info& info) {
  std::unique_ptr<bulk_lane> out{new bulk_lane{config, fabric}};
  out->info_.reset(fi_dupinfo(&info));
  if (!out->info_) return failure{error_code::no_capacity, "out of memory"};
  auto domain = open_domain(fabric, *out->info_);
  if (!domain) return domain.error();
  out->domain_ = *std::move(domain);
  auto events = open_event_queue(fabric);
  if (!events) return events.error();
  out->events_ = *std::move(events);
  out->poll_set_ = owned_fd{::epoll_create1(EPOLL_CLOEXEC)};
  if (!watch(out->poll_set_, out->waker_.fd(), waker_mark) ||
      !watch(out->poll_set_, wait_descriptor(out->events_->fid), events_mark))
    return failure{error_code::no_capacity, "out of file descriptors: raise ulimit -n"};
  return out;
}

void bulk_lane::start() {
  started_.store(true);
  thread_ = start_thread("net-bulk", [this] { run(); });
}

void bulk_lane::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  waker_.wake();
  thread_.join();
}

void bulk_lane::attach(const bulk_peer& peer) {
  tasks_.push([this, peer] {
    bulk_connection& connection = connections_[peer.link];
    if (connection.peer.link != 0) return;  // its connection request came first
    connection.peer = peer;
    connection.connect_at = std::chrono::steady_clock::now();
    look_again_at(connection.connect_at);
  });
}

void bulk_lane::detach(uint64_t link) {
  tasks_.push([this, link] { remove(link, {error_code::unreachable, "the peer is gone"}); });
}

void bulk_lane::accept(const bulk_peer& peer,
                       uint64_t attempt,
                       std::shared_ptr<connection_request> request) {
  tasks_.push([this, peer, attempt, request = std::move(request)] {
    take_request(peer, attempt, *request);
  });
}

void bulk_lane::read(uint64_t link, std::shared_ptr<bulk_read> request) {
  tasks_.push([this, link, request = std::move(request)] {
    const auto found = connections_.find(link);
    if (found == connections_.end()) {
      request->done(bulk_outcome::failed, {error_code::unreachable, "the peer is gone"});
      return;
    }
    bulk_connection& connection = found->second;
    if (connection.reads >= config_.max_queued_reads) {
      request->done(bulk_outcome::failed, {error_code::no_capacity,
                                           "too many reads of one peer: raise max_queued_reads"});
      return;
    }
    request->left = request->into.size();
    if ((info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0) {
      auto local = register_bytes(request->into.data(), request->into.size(), FI_READ);
      if (!local) {
        request->done(bulk_outcome::failed, local.error());
        return;
      }
      request->local = *std::move(local);
    }
    ++connection.reads;
    connection.waiting.push_back(request);
    look_again_at(request->deadline);
    pump(connection);
  });
}

void bulk_lane::show(export_request request) {
  tasks_.push([this, request = std::move(request)] {
    const auto found = connections_.find(request.link);
    if (found == connections_.end())
      return request.done(failure{error_code::unreachable, "the peer is gone"});
    auto region = register_bytes(request.bytes.data(), request.bytes.size(), FI_REMOTE_READ);
    if (!region) return request.done(region.error());
    const region_info info = describe(*region, request.bytes.data(), request.bytes.size());
    found->second.exports.emplace_back(request.ticket,
                                       bulk_export{request.keep, *std::move(region)});
    request.done(info);
  });
}

void bulk_lane::take_back(uint64_t link, uint64_t ticket) {
  tasks_.push([this, link, ticket] {
    const auto found = connections_.find(link);
    if (found == connections_.end()) return;
    std::erase_if(found->second.exports, [&](const auto& entry) { return entry.first == ticket; });
  });
}

/// Runs `task` on the bulk thread and waits for it; not at all once the thread has ended. Before
/// `start` there is no thread yet, and the caller's will do.
void bulk_lane::call(const std::function<void()>& task) {
  if (!started_.load()) return task();
  std::promise<void> done;
  const bool taken = tasks_.push([&task, &done] {
    task();
    done.set_value();
  });
  if (taken) done.get_future().wait();
}

result<uint64_t> bulk_lane::register_region(std::span<std::byte> bytes) {
  result<uint64_t> out = failure{error_code::cancelled, "this node stops"};
  call([&] {
    if (handles_.size() >= config_.max_regions) {
      out = failure{error_code::no_capacity, "too many memory regions: raise max_regions"};
      return;
    }
    auto region = register_bytes(bytes.data(), bytes.size(), FI_REMOTE_READ | FI_READ);
    if (!region) {
      out = region.error();
      return;
    }
    // keys differ between nodes, so that a mix-up fails instead of reading something else
    const uint64_t key = (config_.node.hi ^ config_.node.lo) + ++regions_made_;
    regions_.insert(key, {describe(*region, bytes.data(), bytes.size()), bytes});
    handles_.emplace(key, *std::move(region));
    out = key;
  });
  return out;
}

void bulk_lane::unregister_region(uint64_t key) {
  call([&] {
    regions_.erase(key);
    if (handles_.erase(key) == 0) return;
    for (auto& [link, connection] : connections_)
      if (connection.endpoint) reset(connection, cause::own);
  });
}

result<ofi_region> bulk_lane::register_bytes(const void* bytes, size_t count, uint64_t access) {
  fid_mr* region = nullptr;
  const int code =
      fi_mr_reg(domain_.get(), bytes, count, access, 0, ++keys_made_, 0, &region, nullptr);
  if (code != 0)
    return failure{error_code::no_capacity, std::string{"cannot register memory: "} +
                                                fi_strerror(-code) + "; see ulimit -l"};
  return ofi_region{region};
}

region_info bulk_lane::describe(const ofi_region& region, const void* bytes, size_t count) const {
  const bool virtual_addresses = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  return {count, virtual_addresses ? reinterpret_cast<uint64_t>(bytes) : 0,
          fi_mr_key(region.get())};
}

void bulk_lane::run() {
  while (!stopping_.load()) {
    for (const auto& task : tasks_.take()) task();
    any_blocked_ = false;
    for (auto& [link, connection] : connections_) {
      if (connection.endpoint && connection.ready) drain(connection);
      if (connection.blocked) pump(connection);
      any_blocked_ |= connection.blocked;
    }
    const steady_time now = std::chrono::steady_clock::now();
    if (now >= next_timer_) {
      run_timers(now);
      next_timer_ = earliest_timer();
    }
    sleep(now);
  }
  // a caller may be waiting in `call`, and reads may have come after the last look
  tasks_.close();
  for (const auto& task : tasks_.take()) task();
  while (!connections_.empty())
    remove(connections_.begin()->first, {error_code::cancelled, "this node stops"});
}

steady_time bulk_lane::earliest_timer() const {
  auto next = steady_time::max();
  for (const auto& [link, connection] : connections_) {
    if (connection.peer.role == link_role::dialer && !connection.connected)
      next = std::min(next, connection.endpoint ? connection.deadline : connection.connect_at);
    for (const auto& read : connection.waiting)
      next = std::min(next, read->expired ? read->deadline + config_.read_grace : read->deadline);
  }
  return next;
}

int bulk_lane::sleep_ms(steady_time now) const {
  const steady_time next = any_blocked_ ? now + retry_blocked : next_timer_;
  if (next == steady_time::max()) return -1;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
  return static_cast<int>(std::clamp<int64_t>(wait, 0, 60'000));
}

void bulk_lane::sleep(steady_time now) {
  // a queue that was looked at is armed again; one that has something says so here
  for (auto& [link, connection] : connections_) {
    if (!connection.endpoint || !connection.ready) continue;
    std::array<fid*, 1> waits{&connection.queue->fid};
    if (fi_trywait(&fabric_, waits.data(), 1) != 0) return;
    connection.ready = false;
  }
  // The same for the queue of events: asking costs as much as a small read.
  std::array<fid*, 1> waits{&events_->fid};
  if (!events_armed_) events_armed_ = fi_trywait(&fabric_, waits.data(), 1) == 0;
  const bool events_quiet = events_armed_;
  waker_.prepare();
  const bool idle = events_quiet && tasks_.empty() && !stopping_.load();
  std::array<epoll_event, 64> ready;
  const int count =
      ::epoll_wait(poll_set_.get(), ready.data(), ready.size(), idle ? sleep_ms(now) : 0);
  waker_.awake();
  bool events_ready = !events_quiet;
  for (int i = 0; i < count; ++i) {
    const uint64_t mark = ready[static_cast<size_t>(i)].data.u64;
    if (mark == waker_mark) continue;
    if (mark == events_mark)
      events_ready = true;
    else if (const auto found = connections_.find(mark); found != connections_.end())
      found->second.ready = true;
  }
  if (events_ready) read_events();
}

void bulk_lane::run_timers(steady_time now) {
  for (auto& [link, connection] : connections_) {
    expire_reads(connection, now);
    if (connection.peer.role != link_role::dialer || connection.connected) continue;
    if (connection.endpoint && now >= connection.deadline) reset(connection, cause::own);
    if (!connection.endpoint && now >= connection.connect_at) connect(connection, now);
  }
}

void bulk_lane::read_events() {
  events_armed_ = false;
  alignas(fi_eq_cm_entry) std::array<std::byte, sizeof(fi_eq_cm_entry) + 2 * max_hello_bytes> entry;
  for (;;) {
    uint32_t event = 0;
    errno = 0;  // see `acceptor::run`
    const ssize_t got = fi_eq_read(events_.get(), &event, entry.data(), entry.size(), 0);
    if (got > 0) {
      on_event(event, std::span{entry}.first(static_cast<size_t>(got)));
    } else if (got == -FI_EAVAIL) {
      fi_eq_err_entry error{};
      if (fi_eq_readerr(events_.get(), &error, 0) <= 0) return;
      const auto found = links_.find(error.fid);
      if (found != links_.end()) reset(connections_.at(found->second), cause::peer);
    } else {
      return;
    }
  }
}

void bulk_lane::on_event(uint32_t event, std::span<const std::byte> entry) {
  if (entry.size() < sizeof(fi_eq_cm_entry)) return;
  fi_eq_cm_entry what;
  std::memcpy(&what, entry.data(), sizeof what);
  const auto found = links_.find(what.fid);
  if (found == links_.end()) return;  // of an endpoint that is closed by now
  bulk_connection& connection = connections_.at(found->second);
  if (event == FI_CONNECTED) on_connected(connection, entry.subspan(sizeof what));
  if (event == FI_SHUTDOWN) reset(connection, cause::peer);
}

}  // namespace deepinfer::net
