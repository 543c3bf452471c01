#include "kernels/api/cpu_device.hpp"
#include "kernels/cpu/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace deepinfer::kernels {
namespace {

constexpr std::align_val_t scratch_alignment{64};

struct scratch_deleter {
  void operator()(std::byte* p) const { ::operator delete[](p, scratch_alignment); }
};
using scratch_memory = std::unique_ptr<std::byte[], scratch_deleter>;

scratch_memory make_scratch(size_t bytes) {
  return scratch_memory{
      static_cast<std::byte*>(::operator new[](bytes, scratch_alignment, std::nothrow))};
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The gate of the region that runs: its number, whether threads may still enter, how many are in.
constexpr uint64_t one_region = uint64_t{1} << 32;
constexpr uint64_t open_bit = uint64_t{1} << 31;
constexpr uint64_t inside_mask = open_bit - 1;

constexpr uint64_t region_number(uint64_t gate) {
  return gate / one_region;
}

}  // namespace

/// A region is published by opening the gate under a new number. A thread enters by a compare and
/// swap on the open gate, takes pieces from the counter until none is left, and leaves. The caller
/// does the same, closes the gate and waits for those inside: a thread that slept through it all,
/// or that the system runs elsewhere, is waited for only while it holds a piece.
class cpu_device {
public:
  explicit cpu_device(const cpu_device_options& options)
      : spin_(std::chrono::microseconds{options.spin_us}), threads_(options.threads) {}

  ~cpu_device() {
    {
      const std::lock_guard lock{sleep_};
      stopping_.store(true);
    }
    wake_.notify_all();
    for (std::thread& helper : helpers_) helper.join();
  }

  cpu_device(const cpu_device&) = delete;
  cpu_device& operator=(const cpu_device&) = delete;

  [[nodiscard]] bool start(size_t scratch_bytes) {
    for (uint32_t i = 0; i < threads_; ++i) {
      memory_.push_back(make_scratch(scratch_bytes));
      if (memory_.back() == nullptr) return false;
      workers_.push_back({i, memory_.back().get(), scratch_bytes});
    }
    for (uint32_t i = 1; i < threads_; ++i) helpers_.emplace_back([this, i] { help(workers_[i]); });
    return true;
  }

  [[nodiscard]] uint32_t threads() const { return threads_; }

  void run(const cpu::parallel_region& region) {
    if (threads_ == 1 || region.units <= region.grain) {
      take_all(region, workers_[0]);
      return;
    }
    region_ = region;
    next_.store(0, std::memory_order_relaxed);
    const uint64_t number = (region_number(gate_.load(std::memory_order_relaxed)) + 1);
    gate_.store(number * one_region | open_bit);  // in one order with `sleepers_`
    if (sleepers_.load() != 0) {
      // A helper counts itself as asleep before it looks at the gate for the last time, so it sees
      // the new number or is woken.
      { const std::lock_guard lock{sleep_}; }
      wake_.notify_all();
    }
    take_pieces(region_, workers_[0]);
    gate_.fetch_and(~open_bit, std::memory_order_acq_rel);
    wait_until_empty();
  }

private:
  static void take_all(const cpu::parallel_region& region, const cpu::worker& self) {
    for (size_t first = 0; first < region.units; first += region.grain)
      region.run(region.work, self, first, std::min(region.units, first + region.grain));
  }

  void take_pieces(const cpu::parallel_region& region, const cpu::worker& self) {
    for (;;) {
      const size_t first = next_.fetch_add(region.grain, std::memory_order_relaxed);
      if (first >= region.units) return;
      region.run(region.work, self, first, std::min(region.units, first + region.grain));
    }
  }

  // Those inside hold a piece each. When one was taken off its processor, spinning for it would
  // only take that processor's time.
  void wait_until_empty() {
    for (uint32_t looks = 0; (gate_.load(std::memory_order_acquire) & inside_mask) != 0; ++looks) {
      if (looks < 20'000)
        pause_briefly();
      else
        std::this_thread::yield();
    }
  }

  [[nodiscard]] bool enter(uint64_t last_number) {
    uint64_t gate = gate_.load(std::memory_order_acquire);
    while ((gate & open_bit) != 0 && region_number(gate) != last_number)
      if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel)) return true;
    return false;
  }

  void help(const cpu::worker& self) {
    uint64_t last_number = 0;
    auto idle_since = std::chrono::steady_clock::now();
    for (uint32_t looks = 1; !stopping_.load(std::memory_order_relaxed); ++looks) {
      if (enter(last_number)) {
        last_number = region_number(gate_.load(std::memory_order_relaxed));
        const cpu::parallel_region region = region_;
        take_pieces(region, self);
        gate_.fetch_sub(1, std::memory_order_acq_rel);
        idle_since = std::chrono::steady_clock::now();
        continue;
      }
      pause_briefly();
      if (looks % 64 == 0 && std::chrono::steady_clock::now() - idle_since > spin_) {
        sleep_until_opened(last_number);
        idle_since = std::chrono::steady_clock::now();
      }
    }
  }

  void sleep_until_opened(uint64_t last_number) {
    sleepers_.fetch_add(1);
    std::unique_lock lock{sleep_};
    wake_.wait(lock, [this, last_number] {
      const uint64_t gate = gate_.load();
      return stopping_.load() || ((gate & open_bit) != 0 && region_number(gate) != last_number);
    });
    sleepers_.fetch_sub(1);
  }

  const std::chrono::nanoseconds spin_;
  const uint32_t threads_;
  std::vector<scratch_memory> memory_;
  std::vector<cpu::worker> workers_;
  std::vector<std::thread> helpers_;
  cpu::parallel_region region_{};
  alignas(64) std::atomic<uint64_t> gate_{0};
  alignas(64) std::atomic<size_t> next_{0};
  alignas(64) std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stopping_{false};
  std::mutex sleep_;
  std::condition_variable wake_;
};

void cpu_device_deleter::operator()(cpu_device* device) const {
  delete device;
}

cpu_device_ptr make_cpu_device(const cpu_device_options& options) {
  if (options.threads < 1 || options.threads > most_device_threads ||
      options.scratch_bytes < cpu::scratch_minimum)
    return nullptr;
  cpu_device_ptr device{new (std::nothrow) cpu_device{options}};
  try {
    if (device != nullptr && !device->start(options.scratch_bytes)) device.reset();
  } catch (const std::system_error&) {  // no thread left
    device.reset();
  } catch (const std::bad_alloc&) {
    device.reset();
  }
  return device;
}

stream stream_of(cpu_device& device) {
  return {&device};
}

uint32_t threads_of(const cpu_device& device) {
  return device.threads();
}

namespace cpu {
namespace {

// For streams without a device. Lives as long as the thread.
const worker& own_worker() {
  static thread_local const scratch_memory memory = make_scratch(scratch_minimum);
  static thread_local const worker self{0, memory.get(), scratch_minimum};
  return self;
}

}  // namespace

uint32_t thread_count(const stream& queue) {
  return queue.native == nullptr ? 1 : static_cast<const cpu_device*>(queue.native)->threads();
}

void run_parallel(stream& queue, const parallel_region& region) {
  if (queue.native != nullptr) {
    static_cast<cpu_device*>(queue.native)->run(region);
    return;
  }
  const worker& self = own_worker();
  for (size_t first = 0; first < region.units; first += region.grain)
    region.run(region.work, self, first, std::min(region.units, first + region.grain));
}

}  // namespace cpu
}  // namespace deepinfer::kernels
