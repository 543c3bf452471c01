#include "storage/segment/disk_lane.hpp"

#include "storage/block/block_record.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <numeric>

namespace deepinfer::storage {

open_file::~open_file() {
  if (descriptor >= 0) ::close(descriptor);
}

// ---- one operation

bool transfer::begin(file_operation& operation, through wanted_way) {
  operation_ = &operation;
  done_ = 0;
  whole_pages_ = static_cast<open_file*>(operation.file)->direct;
  buffered_ = whole_pages_ || wanted_way == through::buffer;
  total_ = wanted();
  if (!buffered_) return true;
  const uint64_t pages = (total_ + location_unit - 1) / location_unit * location_unit;
  if (buffer_bytes_ < pages) {
    buffer_.reset(static_cast<std::byte*>(std::aligned_alloc(location_unit, pages)));
    buffer_bytes_ = buffer_ ? pages : 0;
    if (!buffer_) return false;
  }
  if (!reads()) {
    std::byte* at = std::copy(operation.head.begin(), operation.head.end(), buffer_.get());
    at = std::copy(operation.tail.begin(), operation.tail.end(), at);
    if (whole_pages_) std::fill(at, buffer_.get() + pages, std::byte{0});
  }
  if (whole_pages_) total_ = pages;
  return true;
}

ring_request transfer::next(uint32_t tag) const {
  return {reads() ? ring_request::kind::read : ring_request::kind::write,
          static_cast<open_file*>(operation_->file)->descriptor,
          operation_->offset + done_,
          {buffer_.get() + done_, total_ - done_},
          tag};
}

int64_t transfer::call() const {
  iovec parts[2];
  int count = 0;
  const auto add = [&](std::byte* bytes, uint64_t length) {
    if (length > 0) parts[count++] = {bytes, length};
  };
  if (buffered_) {
    add(buffer_.get() + done_, total_ - done_);
  } else {
    const uint64_t head = operation_->head.size();
    const uint64_t in_tail = std::max(done_, head) - head;
    if (done_ < head) add(operation_->head.data() + done_, head - done_);
    add(operation_->tail.data() + in_tail, operation_->tail.size() - in_tail);
  }
  const int descriptor = static_cast<open_file*>(operation_->file)->descriptor;
  const auto offset = static_cast<off_t>(operation_->offset + done_);
  const ssize_t answer = reads() ? ::preadv(descriptor, parts, count, offset)
                                 : ::pwritev(descriptor, parts, count, offset);
  return answer < 0 ? -errno : answer;
}

void transfer::run() {
  while (!settle(call())) continue;
}

bool transfer::settle(int64_t answer) {
  if (answer == -EINTR || answer == -EAGAIN) return false;
  if (answer < 0 || (answer == 0 && !reads())) {
    const bool full = answer == -ENOSPC || answer == -EDQUOT;
    operation_->result = full ? file_operation::outcome::full : file_operation::outcome::failed;
    return true;
  }
  done_ += static_cast<uint64_t>(answer);
  const bool end_of_file = answer == 0 || (whole_pages_ && done_ % location_unit != 0);
  if (done_ < total_ && !(reads() && end_of_file)) return false;
  finish();
  return true;
}

void transfer::finish() {
  operation_->result = file_operation::outcome::done;
  operation_->transferred = std::min(done_, wanted());
  if (!buffered_ || !reads()) return;
  const uint64_t head = std::min<uint64_t>(operation_->transferred, operation_->head.size());
  std::copy_n(buffer_.get(), head, operation_->head.begin());
  std::copy_n(buffer_.get() + head, operation_->transferred - head, operation_->tail.begin());
}

void transfer::give_up() {
  if (operation_ != nullptr) operation_->result = file_operation::outcome::failed;
  operation_ = nullptr;
}

// ---- many at once

disk_lane::~disk_lane() {
  if (!stuck()) return;
  // closing the ring does not take the buffers back from a device that still writes to them
  static auto& kept_for_good = *new std::vector<std::vector<transfer>>;
  static std::mutex mutex;
  std::lock_guard lock{mutex};
  kept_for_good.push_back(std::move(slots_));
}

void disk_lane::push_ready() {
  bool pushed = false;
  for (; !ready_.empty() && ring_->in_flight() < depth_; ready_.pop_front(), pushed = true)
    ring_->push(slots_[ready_.front()].next(ready_.front()));
  if (pushed) static_cast<void>(ring_->submit());  // what it refuses now, `wait` brings again
}

void disk_lane::prepare_one(std::span<file_operation>& left, const operation_hooks& hooks) {
  file_operation& operation = left.front();
  left = left.subspan(1);
  hooks.begins(operation);
  if (slots_[free_.back()].begin(operation, transfer::through::buffer)) {
    ready_.push_back(free_.back());
    free_.pop_back();
    return;
  }
  operation.result = file_operation::outcome::failed;
  hooks.ended(operation);
}

void disk_lane::take_one_answer(const operation_hooks& hooks) {
  const ring_answer answer = answers_.back();
  answers_.pop_back();
  transfer& at = slots_[answer.tag];
  if (!at.settle(answer.result)) {  // what comes back short goes out again for its rest
    ready_.push_front(answer.tag);
    return;
  }
  free_.push_back(answer.tag);
  hooks.ended(at.operation());
}

/// What is in the ring goes on without its operations, which the caller takes away.
void disk_lane::fail_rest(std::span<file_operation> left, const operation_hooks& hooks) {
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (std::find(free_.begin(), free_.end(), slot) != free_.end()) continue;
    const file_operation& operation = slots_[slot].operation();
    slots_[slot].give_up();
    hooks.ended(operation);
  }
  for (file_operation& operation : left) {
    operation.result = file_operation::outcome::failed;
    hooks.ended(operation);
  }
}

void disk_lane::run(std::span<file_operation> operations,
                    const operation_hooks& hooks,
                    std::chrono::milliseconds patience) {
  free_.resize(slots_.size());
  std::iota(free_.begin(), free_.end(), 0u);
  ready_.clear();
  answers_.clear();
  std::span<file_operation> left = operations;
  while (!left.empty() || free_.size() < slots_.size()) {
    push_ready();
    // the device first, then one piece of work at a time
    if (!answers_.empty()) {
      take_one_answer(hooks);
    } else if (!left.empty() && !free_.empty()) {
      prepare_one(left, hooks);
      ring_->reap(answers_);
    } else if (!ring_->wait(patience, answers_)) {
      return fail_rest(left, hooks);
    }
  }
}

bool disk_lane::stuck() {
  while (ring_->in_flight() > 0) {
    answers_.clear();
    if (!ring_->wait(std::chrono::milliseconds{0}, answers_)) return true;
  }
  return false;
}

}  // namespace deepinfer::storage
