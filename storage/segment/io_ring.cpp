#include "storage/segment/io_ring.hpp"

#include "proto/types/check.hpp"

#include <liburing.h>

#include <cerrno>

namespace deepinfer::storage {

void io_ring::free_ring::operator()(io_uring* ring) const {
  io_uring_queue_exit(ring);
  delete ring;
}

std::unique_ptr<io_ring> io_ring::make(uint32_t depth) {
  auto* made = new io_uring{};
  if (io_uring_queue_init(depth, made, 0) != 0) {
    delete made;
    return nullptr;
  }
  return std::unique_ptr<io_ring>{new io_ring({made, {}})};
}

void io_ring::push(const ring_request& request) {
  io_uring_sqe* entry = io_uring_get_sqe(ring_.get());
  DEEPINFER_CHECK(entry != nullptr);
  const auto count = static_cast<unsigned>(request.bytes.size());
  if (request.what == ring_request::kind::read)
    io_uring_prep_read(entry, request.descriptor, request.bytes.data(), count, request.offset);
  else
    io_uring_prep_write(entry, request.descriptor, request.bytes.data(), count, request.offset);
  io_uring_sqe_set_data64(entry, request.tag);
  ++in_flight_;
}

bool io_ring::submit() {
  return io_uring_submit(ring_.get()) >= 0;
}

void io_ring::reap(std::vector<ring_answer>& answers) {
  io_uring_cqe* done = nullptr;
  while (io_uring_peek_cqe(ring_.get(), &done) == 0) {
    if (done->user_data != LIBURING_UDATA_TIMEOUT) {  // on kernels without a timed wait
      answers.push_back({static_cast<uint32_t>(done->user_data), done->res});
      --in_flight_;
    }
    io_uring_cqe_seen(ring_.get(), done);
  }
}

result<void> io_ring::wait(std::chrono::milliseconds patience, std::vector<ring_answer>& answers) {
  const auto until = patience / std::chrono::milliseconds{1};
  __kernel_timespec limit{until / 1000, until % 1000 * 1'000'000};
  io_uring_cqe* done = nullptr;
  const int told = io_uring_submit_and_wait_timeout(ring_.get(), &done, 1, &limit, nullptr);
  const size_t before = answers.size();
  reap(answers);
  if (answers.size() > before || told == -EINTR || told == -EAGAIN || told == -EBUSY) return {};
  if (told == -ETIME) return failure{error_code::deadline_exceeded, "the device does not answer"};
  if (told < 0) return failure{error_code::unreachable, "the kernel refuses a ring's requests"};
  return {};
}

}  // namespace deepinfer::storage
