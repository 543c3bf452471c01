#pragma once

#include "storage/store_types.hpp"

#include <algorithm>

namespace deepinfer::storage {

/// Makes a clock that may jump into one that expiry can trust (KV-15). `now()` never goes back.
/// While the wall clock is behind it, time stands; while the wall clock has run ahead of the steady
/// clock by more than `jump`, time goes on with the steady clock. In both cases the guard is
/// frozen: nothing expires. A clock that comes back thaws it; otherwise an operator acknowledges.
class clock_guard {
public:
  clock_guard(std::chrono::milliseconds jump, std::chrono::milliseconds longest_downtime)
      : jump_(jump), longest_downtime_(longest_downtime) {}

  /// The last time that an earlier life of the store had reached; zero if there was none.
  void resume(cluster_time last) { resumed_ = last; }

  /// Takes a reading; older ones than the last (from another thread) change nothing.
  void observe(const clock_reading& reading) {
    if (!started_) return start(reading);
    if (reading.steady < steady_) return;
    expected_ += reading.steady - steady_;
    steady_ = reading.steady;
    frozen_ = reading.wall < now_ || reading.wall - expected_ > jump_;
    if (!frozen_)
      now_ = expected_ = reading.wall;
    else if (reading.wall > expected_)
      now_ = std::max(now_, expected_);
  }

  void acknowledge(const clock_reading& reading) {
    started_ = true;
    steady_ = reading.steady;
    now_ = expected_ = reading.wall;
    frozen_ = false;
  }

  [[nodiscard]] cluster_time now() const { return now_; }
  [[nodiscard]] bool frozen() const { return frozen_; }

private:
  /// Without a steady reading of the earlier life, the time in between is believed up to a limit.
  void start(const clock_reading& reading) {
    started_ = true;
    steady_ = reading.steady;
    const bool first_life = resumed_ == cluster_time{};
    frozen_ =
        !first_life && (reading.wall < resumed_ || reading.wall - resumed_ > longest_downtime_);
    now_ = expected_ = frozen_ ? resumed_ : reading.wall;
  }

  std::chrono::milliseconds jump_;
  std::chrono::milliseconds longest_downtime_;
  cluster_time resumed_{};
  cluster_time now_{};
  cluster_time expected_{};  // where the steady clock says the wall clock should be
  std::chrono::milliseconds steady_{};
  bool started_ = false;
  bool frozen_ = false;
};

}  // namespace deepinfer::storage
