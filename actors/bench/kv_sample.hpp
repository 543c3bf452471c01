#pragma once

#include "storage/block/chain_hasher.hpp"
#include "storage/store_types.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace deepinfer::bench {

inline constexpr uint32_t kv_block_tokens = 128;
inline constexpr uint32_t kv_block_bytes = 113'920;  ///< of a Flash-shaped model
inline constexpr uint32_t kv_prompt_blocks = 602;    ///< of a prompt of 77,000 tokens

/// Numbers that look random and are the same in every run (splitmix64).
class kv_random {
public:
  explicit kv_random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t bound) { return next() % bound; }

private:
  uint64_t state_;
};

/// A prompt of whole blocks with their keys.
struct kv_chain {
  storage::block_key root;
  std::vector<int32_t> tokens;
  std::vector<storage::block_key> keys;

  [[nodiscard]] storage::block_content content(uint32_t index) const {
    return storage::content_of(
        std::span{tokens}.subspan(size_t{index} * kv_block_tokens, kv_block_tokens), index, {});
  }
};

[[nodiscard]] std::vector<int32_t> kv_tokens(uint64_t seed, uint32_t blocks);
[[nodiscard]] kv_chain make_kv_chain(std::vector<int32_t> tokens);

/// Blocks of bytes that no device can make smaller.
[[nodiscard]] std::vector<std::vector<std::byte>> kv_bytes(uint32_t blocks);

/// 0 to `count` - 1 in an order that the seed picks.
[[nodiscard]] std::vector<uint32_t> shuffled_numbers(uint32_t count, uint64_t seed);

/// A moment some decades after the epoch, on both clocks.
[[nodiscard]] storage::clock_reading kv_moment(std::chrono::milliseconds since = {});

}  // namespace deepinfer::bench
