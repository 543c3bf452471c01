#include "actors/bench/kv_sample.hpp"

#include "proto/types/check.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace deepinfer::bench {

std::vector<int32_t> kv_tokens(uint64_t seed, uint32_t blocks) {
  kv_random random{seed};
  std::vector<int32_t> tokens(size_t{blocks} * kv_block_tokens);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random.below(129'280));
  return tokens;
}

kv_chain make_kv_chain(std::vector<int32_t> tokens) {
  kv_chain chain;
  chain.root = {1, 2};
  chain.tokens = std::move(tokens);
  storage::chain_hasher hasher{chain.root, kv_block_tokens};
  DEEPINFER_CHECK(hasher.append(chain.tokens, {}, chain.keys).has_value());
  return chain;
}

std::vector<std::vector<std::byte>> kv_bytes(uint32_t blocks) {
  kv_random random{11};
  std::vector<std::vector<std::byte>> bytes(blocks, std::vector<std::byte>(kv_block_bytes));
  for (auto& block : bytes)
    for (size_t i = 0; i + sizeof(uint64_t) <= block.size(); i += sizeof(uint64_t)) {
      const uint64_t word = random.next();
      std::memcpy(block.data() + i, &word, sizeof word);
    }
  return bytes;
}

std::vector<uint32_t> shuffled_numbers(uint32_t count, uint64_t seed) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  kv_random random{seed};
  for (uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

storage::clock_reading kv_moment(std::chrono::milliseconds since) {
  return {std::chrono::hours{500'000} + since, since};
}

}  // namespace deepinfer::bench
