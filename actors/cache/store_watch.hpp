#pragma once

#include "storage/store_types.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer {

/// One line for the log: what happened, how often since the last such line, and what to do.
struct store_event {
  std::string_view name;
  uint64_t count = 0;
  std::string_view why;
  bool good = false;  ///< a trouble has ended
};

/// What the store's actor sees itself.
struct store_signs {
  uint32_t hung = 0;       ///< I/O actors that have waited for the device for too long
  uint64_t full = 0;       ///< blocks dropped since no room could be made; counts up
  uint64_t malformed = 0;  ///< writes refused as a whole; counts up
};

/// Looks at a store's numbers now and then and tells what an operator should know. What happens
/// again and again is told once a minute with its count; what lasts is told when it begins and when
/// it ends, and again every ten minutes between. Pure.
class store_watch {
public:
  using time_point = std::chrono::nanoseconds;
  static constexpr std::chrono::minutes again{1}, still{10};

  store_watch() = default;
  explicit store_watch(std::string where) : where_(std::move(where)) {}

  [[nodiscard]] std::vector<store_event> look(const storage::store_stats& stats,
                                              const store_signs& signs,
                                              time_point now);
  [[nodiscard]] const std::string& where() const { return where_; }

private:
  enum counted : size_t {
    read_failures,
    write_failures,
    quarantined,
    diverged,
    collisions,
    full,
    malformed,
    young,
    lost,
    counts
  };
  enum lasting : size_t { frozen, broken, hangs, lasts };
  struct told_count {
    uint64_t value = 0;
    time_point quiet_until{};
  };
  struct told_state {
    bool on = false;
    time_point next{};
  };

  std::string where_;
  std::array<told_count, counts> counts_{};
  std::array<told_state, lasts> states_{};
};

}  // namespace deepinfer
