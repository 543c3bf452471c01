#pragma once

#include <array>
#include <cstdint>

namespace deepinfer {

/// One step of splitmix64: spreads a seed, and derives independent seeds from one.
[[nodiscard]] constexpr uint64_t splitmix64(uint64_t& state) noexcept {
  uint64_t z = (state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// Seeded generator of the product (xoshiro256**): the same numbers on every platform and
/// standard library, which `std::` distributions do not promise. Not for secrets.
class rng {
public:
  explicit constexpr rng(uint64_t seed) noexcept {
    for (uint64_t& word : state_) word = splitmix64(seed);
  }

  constexpr uint64_t next() noexcept {
    const uint64_t answer = rotate(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotate(state_[3], 45);
    return answer;
  }

  /// Uniform in [0, bound); 0 for bound 0. Multiplies instead of dividing and rejects the few
  /// values that would make it uneven (Lemire 2019).
  constexpr uint64_t below(uint64_t bound) noexcept {
    if (bound == 0) return 0;
    const uint64_t uneven = (0 - bound) % bound;
    while (true) {
      const wide product = wide{next()} * bound;
      if (static_cast<uint64_t>(product) >= uneven) return static_cast<uint64_t>(product >> 64);
    }
  }

  /// Uniform in [0, 1), 53 bits.
  constexpr double real() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  /// A generator of its own for a part of the program, so that one part's draws do not shift
  /// another's: the same (generator state, stream) gives the same numbers.
  [[nodiscard]] constexpr rng fork(uint64_t stream) const noexcept {
    uint64_t mixed = state_[0] ^ rotate(state_[3], 23) ^ (stream * 0xD1342543DE82EF95u);
    return rng{splitmix64(mixed)};
  }

private:
  __extension__ using wide = unsigned __int128;

  static constexpr uint64_t rotate(uint64_t x, int by) noexcept {
    return (x << by) | (x >> (64 - by));
  }

  std::array<uint64_t, 4> state_{};
};

}  // namespace deepinfer
