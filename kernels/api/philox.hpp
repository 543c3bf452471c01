#pragma once

#include <cstdint>

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC11):
/// a bijection of a 128-bit counter under a 64-bit key. Having no state, the noise of a token is a
/// function of where it stands, not of who computed it or when.
namespace deepinfer::kernels {

struct philox_counter {
  uint32_t word[4]{};
};

struct philox_key {
  uint32_t word[2]{};
};

inline constexpr uint32_t philox_multipliers[2] = {0xD2511F53, 0xCD9E8D57};
inline constexpr uint32_t philox_key_steps[2] = {0x9E3779B9, 0xBB67AE85};  // golden ratio, sqrt 3

[[nodiscard]] constexpr philox_counter philox4x32_10(philox_counter counter, philox_key key) {
  for (int round = 0; round < 10; ++round) {
    const uint32_t(&c)[4] = counter.word;
    const uint64_t even = uint64_t{philox_multipliers[0]} * c[0];
    const uint64_t odd = uint64_t{philox_multipliers[1]} * c[2];
    counter = {{static_cast<uint32_t>(odd >> 32) ^ c[1] ^ key.word[0], static_cast<uint32_t>(odd),
                static_cast<uint32_t>(even >> 32) ^ c[3] ^ key.word[1],
                static_cast<uint32_t>(even)}};
    key.word[0] += philox_key_steps[0];
    key.word[1] += philox_key_steps[1];
  }
  return counter;
}

}  // namespace deepinfer::kernels
