#pragma once

#include "storage/segment/file_layer.hpp"
#include "storage/segment/io_ring.hpp"

#include <sys/uio.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

namespace deepinfer::storage {

struct open_file : stored_file {
  ~open_file() override;
  int descriptor = -1;
  bool direct = false;  ///< past the page cache: whole pages only
};

/// One operation while it runs: what is left of it, and a buffer of whole pages where the file is
/// read and written past the cache, or where the caller's memory must not be waited for.
class transfer {
public:
  enum class through : uint8_t { callers_memory, buffer };

  transfer() = default;
  transfer(transfer&&) = default;
  transfer& operator=(transfer&&) = default;

  /// False: no memory for the buffer.
  [[nodiscard]] bool begin(file_operation& operation, through wanted);
  /// By a system call, until it has its outcome.
  void run();
  [[nodiscard]] ring_request next(uint32_t tag) const;
  /// True when the operation has its outcome.
  [[nodiscard]] bool settle(int64_t answer);
  /// The kernel did not answer: it may use the buffer for ever, so nobody else does.
  void give_up();
  [[nodiscard]] file_operation& operation() const { return *operation_; }

private:
  struct free_aligned {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  [[nodiscard]] uint64_t wanted() const {
    return operation_->head.size() + operation_->tail.size();
  }
  [[nodiscard]] bool reads() const { return operation_->what == file_operation::kind::read; }
  [[nodiscard]] int64_t call() const;
  void finish();

  file_operation* operation_ = nullptr;
  bool buffered_ = false, whole_pages_ = false;
  uint64_t done_ = 0, total_ = 0;
  std::unique_ptr<std::byte, free_aligned> buffer_;  // kept from one operation to the next
  uint64_t buffer_bytes_ = 0;
};

/// A ring with the operations in it, and as many again: while the device works on some, others are
/// made ready for it and answered ones are copied and looked at. Used by one caller at a time.
class disk_lane {
public:
  disk_lane(std::unique_ptr<io_ring> ring, uint32_t depth)
      : ring_(std::move(ring)), depth_(depth), slots_(2 * size_t{depth}) {}
  ~disk_lane();
  disk_lane(const disk_lane&) = delete;
  disk_lane& operator=(const disk_lane&) = delete;

  /// Runs all; what has no answer when none has come for `patience` fails, and the lane is stuck.
  void run(std::span<file_operation> operations,
           const operation_hooks& hooks,
           std::chrono::milliseconds patience);
  /// Operations that were given up and are still the kernel's; asks it first.
  [[nodiscard]] bool stuck();

private:
  void push_ready();
  void prepare_one(std::span<file_operation>& left, const operation_hooks& hooks);
  void take_one_answer(const operation_hooks& hooks);
  void fail_rest(std::span<file_operation> left, const operation_hooks& hooks);

  std::unique_ptr<io_ring> ring_;
  const uint32_t depth_;
  std::vector<transfer> slots_;
  std::vector<uint32_t> free_;
  std::deque<uint32_t> ready_;  // to be pushed
  std::vector<ring_answer> answers_;
};

}  // namespace deepinfer::storage
