#pragma once

#include <array>
#include <cstdint>

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC11):
/// a bijection of a 128-bit counter under a 64-bit key. Having no state, the noise of a token is a
/// function of where it stands, not of who computed it or when.
namespace deepinfer::model {

struct philox_counter {
  std::array<uint32_t, 4> word{};
};

struct philox_key {
  std::array<uint32_t, 2> word{};
};

[[nodiscard]] constexpr philox_counter philox4x32_10(philox_counter counter, philox_key key) {
  constexpr uint64_t multiplier_even = 0xD2511F53, multiplier_odd = 0xCD9E8D57;
  constexpr uint32_t weyl_golden = 0x9E3779B9, weyl_sqrt3 = 0xBB67AE85;
  auto& c = counter.word;
  auto& k = key.word;
  for (int round = 0; round < 10; ++round) {
    const uint64_t even = multiplier_even * c[0];
    const uint64_t odd = multiplier_odd * c[2];
    c = {static_cast<uint32_t>(odd >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(odd),
         static_cast<uint32_t>(even >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(even)};
    k[0] += weyl_golden;
    k[1] += weyl_sqrt3;
  }
  return counter;
}

}  // namespace deepinfer::model
