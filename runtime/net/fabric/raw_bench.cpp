#include "runtime/net/fabric/raw_bench.hpp"

#include <poll.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace deepinfer::net {
namespace {

constexpr int patience_ms = 20'000;

failure timed_out() {
  return {error_code::deadline_exceeded, "the other side of the measurement does not answer"};
}

/// Opens what both sides need, except the endpoint.
result<void> open_domain_of(const std::string& provider,
                            const socket_address& local,
                            ofi_info& info,
                            ofi_fabric& fabric,
                            ofi_domain& domain,
                            ofi_eq& events) {
  auto found = find_provider(provider, local);
  if (!found) return found.error();
  info = *std::move(found);
  auto opened = open_fabric(*info);
  if (!opened) return opened.error();
  fabric = *std::move(opened);
  auto made = open_domain(*fabric, *info);
  if (!made) return made.error();
  domain = *std::move(made);
  auto queue = open_event_queue(*fabric);
  if (!queue) return queue.error();
  events = *std::move(queue);
  return {};
}

struct raw_event {
  uint32_t what = 0;
  fi_info* info = nullptr;  ///< of a connection request
};

result<raw_event> next_event(fid_eq& events) {
  raw_event out;
  errno = 0;
  fi_eq_cm_entry entry{};
  const ssize_t got = fi_eq_sread(&events, &out.what, &entry, sizeof entry, patience_ms, 0);
  if (got < 0) return ofi_failure("no connection for the measurement", got);
  out.info = entry.info;
  return out;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

result<void> raw_endpoint::prepare() {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const ssize_t code = fi_recv(endpoint_.get(), buffers_[i].data(), buffers_[i].size(), nullptr,
                                 FI_ADDR_UNSPEC, &receives_[i]);
    if (code != 0) return ofi_failure("cannot post a receive", code);
  }
  return {};
}

result<std::unique_ptr<raw_endpoint>> raw_endpoint::connect(const std::string& provider,
                                                            const socket_address& target) {
  std::unique_ptr<raw_endpoint> out{new raw_endpoint};
  socket_address local = target;
  local.set_port(0);
  if (auto done =
          open_domain_of(provider, local, out->info_, out->fabric_, out->domain_, out->events_);
      !done)
    return done.error();
  auto queue = open_completion_queue(*out->domain_, 256);
  if (!queue) return queue.error();
  out->queue_ = *std::move(queue);
  const ofi_info towards = info_towards(*out->info_, target);
  auto endpoint = open_endpoint(*out->domain_, *towards, *out->events_, *out->queue_, nullptr);
  if (!endpoint) return endpoint.error();
  out->endpoint_ = *std::move(endpoint);
  if (auto ready = out->prepare(); !ready) return ready.error();
  if (const int code = fi_connect(out->endpoint_.get(), towards->dest_addr, nullptr, 0); code != 0)
    return ofi_failure("cannot connect", code);
  const auto event = next_event(*out->events_);
  if (!event) return event.error();
  if (event->what != FI_CONNECTED) return timed_out();
  return out;
}

result<fi_cq_data_entry> raw_endpoint::next_completion() {
  fi_cq_data_entry entry;
  for (;;) {
    const ssize_t got = fi_cq_read(queue_.get(), &entry, 1);
    if (got == 1) return entry;
    if (got != -FI_EAGAIN) return ofi_failure("connection broken", got);
    std::array<fid*, 1> waits{&queue_->fid};
    if (fi_trywait(fabric_.get(), waits.data(), 1) != 0) continue;
    pollfd fd{wait_descriptor(queue_->fid), POLLIN, 0};
    if (::poll(&fd, 1, patience_ms) == 0) return timed_out();
  }
}

result<void> raw_endpoint::send(std::span<const std::byte> bytes) {
  const ssize_t code = bytes.size() <= inject_bytes
                           ? fi_inject(endpoint_.get(), bytes.data(), bytes.size(), FI_ADDR_UNSPEC)
                           : fi_send(endpoint_.get(), bytes.data(), bytes.size(), nullptr,
                                     FI_ADDR_UNSPEC, &sending_);
  if (code != 0) return ofi_failure("cannot send", code);
  return {};
}

result<std::vector<double>> raw_endpoint::ping(size_t payload, size_t count) {
  const std::vector<std::byte> message(std::min(payload, longest_ping));
  std::vector<double> times;
  times.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (auto sent = send(message); !sent) return sent.error();
    for (;;) {
      const auto done = next_completion();
      if (!done) return done.error();
      if (done->op_context == &sending_) continue;
      const auto slot =
          static_cast<size_t>(static_cast<fi_context2*>(done->op_context) - receives_.data());
      (void)fi_recv(endpoint_.get(), buffers_[slot].data(), buffers_[slot].size(), nullptr,
                    FI_ADDR_UNSPEC, &receives_[slot]);
      break;
    }
    times.push_back(seconds_since(start) * 1e9);
  }
  return times;
}

result<double> raw_endpoint::read(const read_plan& plan) {
  into_.resize(plan.block_bytes * plan.in_flight);
  std::vector<fi_context2> contexts(plan.in_flight);
  size_t posted = 0, done = 0;
  const auto post = [&](size_t slot) {
    const uint64_t offset = posted * plan.block_bytes % (plan.region_bytes - plan.block_bytes + 1);
    ++posted;
    return fi_read(endpoint_.get(), into_.data() + slot * plan.block_bytes, plan.block_bytes,
                   nullptr, FI_ADDR_UNSPEC, plan.address + offset, plan.key, &contexts[slot]);
  };
  const auto start = std::chrono::steady_clock::now();
  for (size_t slot = 0; slot < plan.in_flight && posted < plan.blocks; ++slot)
    if (const ssize_t code = post(slot); code != 0) return ofi_failure("cannot read", code);
  while (done < plan.blocks) {
    const auto completion = next_completion();
    if (!completion) return completion.error();
    ++done;
    const auto slot =
        static_cast<size_t>(static_cast<fi_context2*>(completion->op_context) - contexts.data());
    if (posted == plan.blocks) continue;
    if (const ssize_t code = post(slot); code != 0) return ofi_failure("cannot read", code);
  }
  return static_cast<double>(plan.blocks * plan.block_bytes) / seconds_since(start);
}

result<std::unique_ptr<raw_server>> raw_server::open(const std::string& provider,
                                                     std::span<std::byte> memory) {
  std::unique_ptr<raw_server> out{new raw_server};
  raw_endpoint& side = out->side_;
  auto local = numeric_address({"127.0.0.1", 0});
  if (auto done =
          open_domain_of(provider, *local, side.info_, side.fabric_, side.domain_, side.events_);
      !done)
    return done.error();
  fid_pep* listener = nullptr;
  int code = fi_passive_ep(side.fabric_.get(), side.info_.get(), &listener, nullptr);
  out->listener_.reset(listener);
  if (code == 0) code = fi_pep_bind(listener, &side.events_->fid, 0);
  if (code == 0) code = fi_listen(listener);
  size_t length = sizeof out->where_.storage;
  if (code == 0) code = fi_getname(&listener->fid, out->where_.get(), &length);
  if (code != 0) return ofi_failure("cannot listen", code);
  out->where_.length = static_cast<socklen_t>(length);
  fid_mr* region = nullptr;
  code = fi_mr_reg(side.domain_.get(), memory.data(), memory.size(), FI_REMOTE_READ, 0, 1, 0,
                   &region, nullptr);
  if (code != 0) return ofi_failure("cannot register memory", code);
  out->region_.reset(region);
  if ((side.info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0)
    out->base_ = reinterpret_cast<uint64_t>(memory.data());
  return out;
}

result<void> raw_server::serve() {
  const auto request = next_event(*side_.events_);
  if (!request) return request.error();
  if (request->what != FI_CONNREQ) return timed_out();
  const ofi_info info{request->info};
  auto queue = open_completion_queue(*side_.domain_, 256);
  if (!queue) return queue.error();
  side_.queue_ = *std::move(queue);
  auto endpoint = open_endpoint(*side_.domain_, *info, *side_.events_, *side_.queue_, nullptr);
  if (!endpoint) return endpoint.error();
  side_.endpoint_ = *std::move(endpoint);
  if (auto ready = side_.prepare(); !ready) return ready;
  if (const int code = fi_accept(side_.endpoint_.get(), nullptr, 0); code != 0)
    return ofi_failure("cannot accept", code);
  if (const auto event = next_event(*side_.events_); !event) return event.error();
  for (;;) {
    const auto done = side_.next_completion();
    if (!done) return {};  // closed
    if (done->op_context == &side_.sending_) continue;
    const auto slot =
        static_cast<size_t>(static_cast<fi_context2*>(done->op_context) - side_.receives_.data());
    auto& buffer = side_.buffers_[slot];
    if (auto sent = side_.send(std::span{buffer}.first(done->len)); !sent) return {};
    (void)fi_recv(side_.endpoint_.get(), buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC,
                  &side_.receives_[slot]);
  }
}

}  // namespace deepinfer::net
