#include "runtime/model/random_values.hpp"

#include "runtime/base/rng.hpp"

#include <algorithm>

namespace deepinfer::model {
namespace {

// FNV-1a, then splitmix: names differ in few characters and keys should differ in all bits.
uint64_t key_of(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  uint64_t state = hash + splitmix64(seed);
  return splitmix64(state);
}

}  // namespace

random_values::random_values(uint64_t seed, std::string_view tensor) {
  const uint64_t key = key_of(seed, tensor);
  key_ = {{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)}};
}

// philox4x32_10 of `blocks` counters at once, one array per word so that compilers vectorise it.
// Value 8 j + i of the group comes from word j of block i.
void random_values::group_at(uint64_t number, float* out) const {
  constexpr uint64_t multiplier_even = 0xD2511F53, multiplier_odd = 0xCD9E8D57;
  uint32_t c[4][blocks], k0 = key_.word[0], k1 = key_.word[1];
  for (uint32_t i = 0; i < blocks; ++i) {
    const uint64_t counter = number * blocks + i;
    c[0][i] = static_cast<uint32_t>(counter);
    c[1][i] = static_cast<uint32_t>(counter >> 32);
    c[2][i] = c[3][i] = 0;
  }
  for (int round = 0; round < 10; ++round) {
    for (uint32_t i = 0; i < blocks; ++i) {
      const uint64_t even = multiplier_even * c[0][i], odd = multiplier_odd * c[2][i];
      c[0][i] = static_cast<uint32_t>(odd >> 32) ^ c[1][i] ^ k0;
      c[1][i] = static_cast<uint32_t>(odd);
      c[2][i] = static_cast<uint32_t>(even >> 32) ^ c[3][i] ^ k1;
      c[3][i] = static_cast<uint32_t>(even);
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  // A byte has variance (256^2 - 1) / 12, so the sum of four has deviation 147.80.
  constexpr float to_unit = 1.0f / 147.80053f;
  for (uint32_t j = 0; j < 4; ++j)
    for (uint32_t i = 0; i < blocks; ++i) {
      const uint32_t pairs = (c[j][i] & 0x00FF00FF) + ((c[j][i] >> 8) & 0x00FF00FF);
      const auto sum = static_cast<int32_t>((pairs + (pairs >> 16)) & 0xFFFF);
      out[blocks * j + i] = static_cast<float>(sum - 510) * to_unit;
    }
}

void random_values::normals(uint64_t first, std::span<float> out) const {
  float piece[group];
  for (size_t done = 0; done < out.size();) {
    const uint64_t number = (first + done) / group;
    const size_t skip = (first + done) % group;
    const size_t count = std::min(group - skip, out.size() - done);
    if (count == group) {
      group_at(number, out.data() + done);
    } else {
      group_at(number, piece);
      std::copy_n(piece + skip, count, out.data() + done);
    }
    done += count;
  }
}

uint32_t random_values::below(uint64_t index, uint32_t bound) const {
  // The last counter word keeps these apart from the groups above.
  const kernels::philox_counter at{
      {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 1}};
  const uint64_t word = kernels::philox4x32_10(at, key_).word[0];
  return static_cast<uint32_t>(word * bound >> 32);
}

}  // namespace deepinfer::model
