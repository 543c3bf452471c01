#pragma once

#include <cstdint>
#include <mutex>

namespace deepinfer::storage {

/// What goes wrong in a simulated medium, and when: seeded, so that a run repeats. Chances are per
/// operation, in 1/65536. Shared by the files and the journal of one store, whose effects it
/// counts: after `crash_after` of them the machine is gone and everything fails.
class fault_plan {
public:
  struct chances {
    uint32_t flipped_read = 0;   ///< one bit, in what is read; the medium is fine
    uint32_t flipped_write = 0;  ///< one bit, in what is written
    uint32_t torn_write = 0;     ///< only a part is written, and success told
    uint32_t short_read = 0;     ///< fewer bytes than there are
    uint32_t failed_read = 0;
    uint32_t failed_write = 0;
    uint32_t full_disk = 0;
    uint32_t stall = 0;  ///< counted; time is virtual
  };

  explicit fault_plan(uint64_t seed) : state_(seed) {}

  void set(const chances& now) {
    std::lock_guard lock{mutex_};
    chances_ = now;
  }
  [[nodiscard]] chances current() {
    std::lock_guard lock{mutex_};
    return chances_;
  }
  void crash_after(uint64_t effects) {
    std::lock_guard lock{mutex_};
    armed_ = true;
    effects_left_ = effects;
  }
  /// The machine is up again.
  void recover() {
    std::lock_guard lock{mutex_};
    armed_ = crashed_ = false;
  }

  /// Called before each effect; false: the machine is gone, the effect does not happen.
  [[nodiscard]] bool proceed() {
    std::lock_guard lock{mutex_};
    if (crashed_) return false;
    if (armed_ && effects_left_-- == 0) crashed_ = true;
    return !crashed_;
  }
  [[nodiscard]] bool crashed() {
    std::lock_guard lock{mutex_};
    return crashed_;
  }
  [[nodiscard]] bool happens(uint32_t chance) {
    if (chance == 0) return false;
    const bool now = below(65'536) < chance;
    std::lock_guard lock{mutex_};
    faults_ += now;
    return now;
  }
  [[nodiscard]] uint64_t below(uint64_t bound) {
    std::lock_guard lock{mutex_};
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);  // splitmix64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (z ^ (z >> 31)) % bound;
  }
  [[nodiscard]] uint64_t faults() {
    std::lock_guard lock{mutex_};
    return faults_;
  }

private:
  std::mutex mutex_;
  uint64_t state_;
  chances chances_;
  bool armed_ = false;
  bool crashed_ = false;
  uint64_t effects_left_ = 0;
  uint64_t faults_ = 0;
};

}  // namespace deepinfer::storage
