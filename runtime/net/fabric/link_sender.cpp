#include "runtime/net/fabric/link_sender.hpp"

#include "proto/types/limits.hpp"
#include "runtime/net/fabric/fabric_link.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace deepinfer::net {
namespace {

constexpr size_t header_bytes = sizeof(wire::frame_header);
constexpr size_t longest_inject = 128;
// fi_inject gives no completion, and the provider takes any number: now and then ask for one
constexpr size_t injects_in_a_row = 64;
constexpr size_t spare_operations = 256;

}  // namespace

aligned_bytes allocate_aligned(size_t bytes) {
  constexpr size_t alignment = 64;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  auto* memory =
      static_cast<std::byte*>(std::aligned_alloc(alignment, std::max(rounded, alignment)));
  return aligned_bytes{memory};
}

std::unique_ptr<transmit_op> link_environment::take_op() {
  if (!spare.empty()) {
    auto op = std::move(spare.back());
    spare.pop_back();
    return op;
  }
  auto op = std::make_unique<transmit_op>();
  op->what = link_op::kind::transmit;
  if (!local_regions) return op;
  const size_t size = header_bytes + limits::eager_frame_bytes;
  op->bounce = allocate_aligned(size);
  fid_mr* region = nullptr;
  if (!op->bounce ||
      fi_mr_reg(domain, op->bounce.get(), size, FI_SEND, 0, 0, 0, &region, nullptr) != 0)
    return nullptr;
  op->region.reset(region);
  return op;
}

link_sender::outcome link_sender::flush(fid_ep& endpoint, steady_time now) {
  while (!urgent_.empty()) {
    const ssize_t code = post(endpoint, urgent_.front(), false);
    if (code == -FI_EAGAIN) return outcome::blocked;
    if (code != 0) return outcome::broken;
    last_sent_ = now;
    urgent_.pop_front();
  }
  while (!waiting_.empty() && !long_frame_open_) {
    outgoing_frame& frame = waiting_.front();
    if (frame.body.size() > limits::eager_frame_bytes) return outcome::long_frame;
    const size_t size = header_bytes + frame.body.size();
    if (bytes_under_way_ > 0 && bytes_under_way_ + size > environment_.config.window_bytes) break;
    const ssize_t code = post(endpoint, frame, true);
    if (code == -FI_EAGAIN) return outcome::blocked;
    if (code != 0) return outcome::broken;
    last_sent_ = now;
    waiting_.pop_front();
  }
  return outcome::idle;
}

ssize_t link_sender::post(fid_ep& endpoint, outgoing_frame& frame, bool counted) {
  const size_t size = header_bytes + frame.body.size();
  frame.header.epoch = environment_.config.epoch;
  frame.header.sequence = sequence_ + 1;
  wire::seal(frame.header, frame.body);
  ssize_t code = 0;
  if (size <= environment_.inject_bytes && injected_ < injects_in_a_row) {
    std::array<std::byte, longest_inject> whole;
    std::memcpy(whole.data(), &frame.header, header_bytes);
    if (!frame.body.empty())
      std::memcpy(whole.data() + header_bytes, frame.body.data(), frame.body.size());
    code = fi_inject(&endpoint, whole.data(), size, FI_ADDR_UNSPEC);
    if (code == 0) ++injected_;
    if (code == 0 && counted) link_.gate->give_back(size);
  } else {
    code = post_operation(endpoint, frame, counted);
    if (code == 0) injected_ = 0;
  }
  if (code != 0) return code;
  ++sequence_;
  environment_.stats.frames_sent.fetch_add(1, std::memory_order_relaxed);
  environment_.stats.bytes_sent.fetch_add(size, std::memory_order_relaxed);
  return 0;
}

ssize_t link_sender::post_operation(fid_ep& endpoint, outgoing_frame& frame, bool counted) {
  std::unique_ptr<transmit_op> op = environment_.take_op();
  if (!op) return -FI_EAGAIN;
  op->link = &link_;
  op->header = frame.header;
  op->keep = frame.keep;
  op->bytes = header_bytes + frame.body.size();
  op->counted = counted;
  std::array<iovec, 2> parts{};
  std::array<void*, 2> descriptors{};
  size_t count = 1;
  if (op->bounce) {
    std::memcpy(op->bounce.get(), &op->header, header_bytes);
    if (!frame.body.empty())
      std::memcpy(op->bounce.get() + header_bytes, frame.body.data(), frame.body.size());
    parts[0] = {op->bounce.get(), op->bytes};
    descriptors[0] = fi_mr_desc(op->region.get());
  } else {
    parts[0] = {&op->header, header_bytes};
    parts[1] = {const_cast<std::byte*>(frame.body.data()), frame.body.size()};
    count = frame.body.empty() ? 1 : 2;
  }
  const ssize_t code =
      fi_sendv(&endpoint, parts.data(), descriptors.data(), count, FI_ADDR_UNSPEC, &op->context);
  if (code != 0) return code;
  bytes_under_way_ += op->bytes;
  ++under_way_;
  op.release();  // libfabric hands it back: `completed`
  return 0;
}

void link_sender::completed(transmit_op& op) {
  std::unique_ptr<transmit_op> owned{&op};
  bytes_under_way_ -= op.bytes;
  --under_way_;
  if (op.counted) link_.gate->give_back(op.bytes);
  op.keep.reset();
  if (environment_.spare.size() < spare_operations) environment_.spare.push_back(std::move(owned));
}

void link_sender::long_frame_done() {
  link_.gate->give_back(header_bytes + waiting_.front().body.size());
  waiting_.pop_front();
  long_frame_open_ = false;
}

void link_sender::clear() {
  urgent_.clear();
  waiting_.clear();
}

}  // namespace deepinfer::net
