#pragma once

#include "kernels/api/cpu_device.hpp"
#include "kernels/api/table.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

/// What every op's test needs: the backends, random inputs, poisoned outputs, a distance.
namespace deepinfer::test {

inline kernels::op_table reference() {
  kernels::op_table table;
  kernels::register_ref(table);
  return table;
}

/// One per instruction set that this machine can run.
inline std::vector<kernels::op_table> backends() {
  std::vector<kernels::op_table> all(static_cast<size_t>(kernels::best_cpu_isa()) + 1);
  for (size_t i = 0; i < all.size(); ++i)
    kernels::register_cpu(all[i], static_cast<kernels::cpu_isa>(i));
  return all;
}

/// The same bits, NaN included.
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// What `run(table, stream)` gives on every backend, with and without threads; all must agree to
/// the bit.
template <class Run>
auto everywhere(const Run& run) {
  static const kernels::cpu_device_ptr devices[] = {nullptr, kernels::make_cpu_device({2}),
                                                    kernels::make_cpu_device({3})};
  decltype(run(reference(), std::declval<kernels::stream&>())) first;
  bool is_first = true;
  for (const kernels::op_table& table : backends())
    for (const kernels::cpu_device_ptr& device : devices) {
      kernels::stream queue = device == nullptr ? kernels::stream{} : stream_of(*device);
      auto got = run(table, queue);
      CAPTURE(table.name);
      if (!is_first) CHECK(same_bits(got, first));
      if (is_first) first = std::move(got);
      is_first = false;
    }
  return first;
}

inline std::vector<float> random_floats(rng& random, size_t count, float spread = 1.0f) {
  std::vector<float> out(count);
  for (float& v : out) v = static_cast<float>(random.real() * 2 - 1) * spread;
  return out;
}

/// An output no op may read and every op must fill.
inline std::vector<float> poisoned(size_t count) {
  return std::vector<float>(count, std::numeric_limits<float>::quiet_NaN());
}

/// max |a - b| / max |b|; infinite when one has a NaN the other has not.
inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0, largest = 1e-30;
  for (size_t i = 0; i < b.size(); ++i) {
    if (a[i] == b[i]) continue;  // equal infinities included
    if (!(std::isfinite(a[i]) && std::isfinite(b[i])))
      return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::fabs(double{a[i]} - b[i]));
  }
  for (const float v : b)
    if (std::isfinite(v)) largest = std::max(largest, std::fabs(double{v}));
  return worst / largest;
}

}  // namespace deepinfer::test
