#include "storage/segment/io_ring.hpp"

#include <liburing.h>

#include <algorithm>
#include <cerrno>

namespace deepinfer::storage {

void ring_pool::free_ring::operator()(io_uring* ring) const {
  io_uring_queue_exit(ring);
  delete ring;
}

ring_pool::ring_pool(uint32_t rings, uint32_t queue_depth)
    : depth_(std::max(1u, queue_depth)), left_(rings) {}

ring_pool::~ring_pool() = default;

ring_pool::ring ring_pool::take() {
  {
    std::lock_guard lock{mutex_};
    if (!idle_.empty()) {
      ring taken = std::move(idle_.back());
      idle_.pop_back();
      return taken;
    }
    if (left_ == 0) return nullptr;
    --left_;
  }
  auto* made = new io_uring{};
  if (io_uring_queue_init(depth_, made, 0) == 0) return ring{made};
  delete made;  // an old kernel, or a container that forbids it: never asked again
  std::lock_guard lock{mutex_};
  left_ = 0;
  return nullptr;
}

void ring_pool::give(ring used) {
  std::lock_guard lock{mutex_};
  idle_.push_back(std::move(used));
}

bool ring_pool::usable() {
  ring probe = take();
  if (!probe) return false;
  give(std::move(probe));
  return true;
}

bool ring_pool::run(std::span<ring_operation> operations) {
  ring mine = take();
  if (!mine) return false;
  size_t begun = 0, ended = 0;
  while (ended < operations.size()) {
    while (begun < operations.size() && begun - ended < depth_) {
      io_uring_sqe* entry = io_uring_get_sqe(mine.get());
      if (entry == nullptr) break;
      ring_operation& op = operations[begun++];
      if (op.what == ring_operation::kind::read)
        io_uring_prep_readv(entry, op.descriptor, op.parts, op.part_count, op.offset);
      else
        io_uring_prep_writev(entry, op.descriptor, op.parts, op.part_count, op.offset);
      io_uring_sqe_set_data(entry, &op);
    }
    // buffers belong to the kernel until it answers, so nothing but answers ends this loop
    const int submitted = io_uring_submit_and_wait(mine.get(), 1);
    if (submitted < 0 && submitted != -EINTR && submitted != -EAGAIN && submitted != -EBUSY) break;
    io_uring_cqe* done = nullptr;
    while (io_uring_peek_cqe(mine.get(), &done) == 0) {
      static_cast<ring_operation*>(io_uring_cqe_get_data(done))->answer = done->res;
      io_uring_cqe_seen(mine.get(), done);
      ++ended;
    }
  }
  const bool all = ended == operations.size();
  if (all) give(std::move(mine));  // a ring that failed is closed, which waits for the kernel
  return all;
}

}  // namespace deepinfer::storage
