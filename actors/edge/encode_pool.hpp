#pragma once

#include "proto/types/result.hpp"
#include "runtime/tokenizer/part_runner.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace deepinfer {

constexpr uint32_t most_encode_helpers = 64;

/// Threads that help codecs to encode long prompts. The codec that asks works too, so a prompt
/// always goes on, also while all helpers are busy with others; helpers take one piece of work from
/// each prompt in turn. They sleep while there is nothing to do and are joined by the destructor,
/// before which every `run` must have returned.
class encode_pool final : public text::part_runner {
public:
  /// Fails with `invalid_argument` beyond `most_encode_helpers`, with `no_capacity` when the system
  /// has no thread left. Without helpers `run` is a loop.
  [[nodiscard]] static result<std::shared_ptr<encode_pool>> make(uint32_t helpers);

  encode_pool(const encode_pool&) = delete;
  encode_pool& operator=(const encode_pool&) = delete;
  ~encode_pool() override;

  void run(size_t count, const std::function<void(size_t)>& work) override;
  [[nodiscard]] size_t width() const override { return threads_.size() + 1; }

private:
  /// One `run` under way; lives on its caller's stack.
  struct batch {
    const std::function<void(size_t)>& work;
    size_t count;
    size_t next = 0;     // first piece nobody has begun
    size_t running = 0;  // begun and not done
    std::condition_variable all_done;
  };

  encode_pool() = default;
  void help();
  /// Begins, does and ends the next piece of `from`, which has one; the lock is free meanwhile.
  void do_next(batch& from, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable work_waits_;
  std::deque<batch*> open_;  // those with pieces that nobody has begun
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace deepinfer
