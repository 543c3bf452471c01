#pragma once

#include "kernels/api/sample.hpp"
#include "kernels/cpu/selection.hpp"

/// A row of logits by sixteen, and the masses of its tokens.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

struct token_row {
  const float* logits;
  size_t count;
  float highest;
  float temperature;

  /// What is behind the end reads as -infinity.
  [[nodiscard]] DEEPINFER_INLINE vec16 load_at(size_t i) const {
    if (i + lane_count <= count) return load(logits + i);
    const size_t n = count - i;
    return select(first_lanes(n), load_first(logits + i, n), all(minus_infinity));
  }
  /// (logit - highest) / temperature
  [[nodiscard]] DEEPINFER_INLINE vec16 scaled(vec16 logit) const {
    const vec16 below = logit - all(highest);
    return temperature == 1 ? below : below / all(temperature);
  }
};

/// The highest logit; NaN when one of them is no number a token may have.
inline float highest_of(const float* logits, size_t n) {
  vec16 most[4];
  for (vec16& m : most) m = all(minus_infinity);
  mask16 fine = first_lanes(lane_count);
  const auto look = [&](vec16 x, size_t k) {
    most[k] = max(x, most[k]);
    fine = fine & (x < all(-minus_infinity));  // false for NaN
  };
  size_t i = 0;
  for (; i + 64 <= n; i += 64)
    for (size_t k = 0; k < 4; ++k) look(load(logits + i + 16 * k), k);
  for (; i < n; i += lane_count)
    look(select(first_lanes(n - i), load_first(logits + i, n - i), all(minus_infinity)), 0);
  if (bits_of(fine) != 0xFFFF) return std::numeric_limits<float>::quiet_NaN();
  return largest(max(max(most[0], most[1]), max(most[2], most[3])));
}

/// Tokens above `logit`, and those that equal it up to the id `last`.
struct token_cut {
  float logit = minus_infinity;
  uint32_t last = 0;

  [[nodiscard]] bool keeps(float other, uint32_t id) const {
    return other > logit || (other == logit && id <= last);
  }
};

/// `token_mass` of sixteen tokens in two parts: high * 2^20 + low.
struct token_masses {
  ivec16 high, low;
};
DEEPINFER_INLINE token_masses masses_of(vec16 scaled) {
  const vec16 large = exp(scaled) * all(0x1p20f);
  const ivec16 high = to_whole(large);
  return {high, to_whole((large - to_float(high)) * all(0x1p20f))};
}
/// Below this a token's mass is 0: e^-27.8 < 2^-40.
inline constexpr float massless = -27.8f;

/// Adds numbers below 2^21 lane by lane.
class wide_sum {
public:
  DEEPINFER_INLINE wide_sum() : lanes_(all_i(0)) {}
  DEEPINFER_INLINE void add(ivec16 x) {
    lanes_ = lanes_ + x;
    if (++held_ == 1024) spill();
  }
  DEEPINFER_INLINE uint64_t total() {
    spill();
    return total_;
  }

private:
  DEEPINFER_INLINE void spill() {
    uint32_t lane[lane_count];
    store_i(lane, lanes_);
    for (const uint32_t v : lane) total_ += v;
    lanes_ = all_i(0);
    held_ = 0;
  }
  ivec16 lanes_;
  uint32_t held_ = 0;
  uint64_t total_ = 0;
};

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
