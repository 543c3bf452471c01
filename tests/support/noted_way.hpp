#pragma once

#include "actors/cache/hit_metrics.hpp"

#include <vector>

namespace deepinfer::test {

/// What was observed of a way.
struct noted_way final : histogram, counter {
  void observe(double value) noexcept override { seconds.push_back(value); }
  void add(double amount) noexcept override { bytes += amount; }
  way_metrics way() { return {this, this}; }

  std::vector<double> seconds;
  double bytes = 0;
};

}  // namespace deepinfer::test
