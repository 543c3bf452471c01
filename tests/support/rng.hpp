#pragma once

#include <cstdint>

namespace deepinfer::test {

/// Small seeded generator for tests (splitmix64): the same numbers on every platform.
class rng {
public:
  explicit rng(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// In [0, bound), bound > 0; the bias is irrelevant here.
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(next() % bound); }
  /// In [0, 1).
  double real() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

private:
  uint64_t state_;
};

}  // namespace deepinfer::test
