#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace deepinfer::bench {

/// The middle of some measurements and how far they lie from it (median absolute deviation).
struct summary {
  double median = 0;
  double spread = 0;
  size_t runs = 0;
};

inline double middle(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

inline summary summarize(const std::vector<double>& values) {
  summary out{.median = middle(values), .runs = values.size()};
  std::vector<double> distances;
  for (const double v : values) distances.push_back(std::abs(v - out.median));
  out.spread = middle(distances);
  return out;
}

/// What a figure is compared with; without a name it stands alone.
struct baseline {
  std::string name;
  double value = 0;
};

/// One JSON line: {"name","value","unit","ratio_to","ratio","runs","spread"}.
inline void print_line(const std::string& name,
                       const summary& s,
                       const std::string& unit,
                       const baseline& to = {}) {
  std::printf("{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"", name.c_str(), s.median,
              unit.c_str());
  if (!to.name.empty() && to.value > 0)
    std::printf(",\"ratio_to\":\"%s\",\"ratio\":%.3g", to.name.c_str(), s.median / to.value);
  std::printf(",\"runs\":%zu,\"spread\":%.3g}\n", s.runs, s.spread);
  std::fflush(stdout);
}

}  // namespace deepinfer::bench
