#pragma once

#include "tests/support/rng.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

/// What a client can do to a hash table whose function is known and has no secret.
namespace deepinfer::test {

/// One round of libstdc++'s hash of strings (MurmurHash2 for 64 bits, with a constant seed).
class string_hash_round {
public:
  explicit string_hash_round(size_t bytes) : hash_(0xC70F6907 ^ (bytes * multiplier)) {}

  /// Eight letters that take the hash to `wanted`, behind eight chosen by `random` at will: of all
  /// pairs of blocks about one in three thousand is made of letters.
  std::string blocks_to(uint64_t wanted, rng& random) const {
    for (;;) {
      std::string text;
      for (int i = 0; i < 8; ++i) text += static_cast<char>('!' + random.below(90));
      uint64_t block = 0;
      std::memcpy(&block, text.data(), sizeof block);
      const uint64_t middle = (hash_ ^ mixed(block)) * multiplier;
      // wanted = (middle ^ mixed(second)) * multiplier, backwards.
      const uint64_t second = unmixed(middle ^ (wanted * inverse()));
      std::string more(sizeof second, '\0');
      std::memcpy(more.data(), &second, sizeof second);
      text += more;
      if (is_plain(text)) return text;
    }
  }
  void set(uint64_t hash) { hash_ = hash; }

private:
  static constexpr uint64_t multiplier = 0xC6A4A7935BD1E995;

  static constexpr uint64_t inverse() {
    uint64_t x = multiplier;  // Newton: each step doubles the number of right bits
    for (int i = 0; i < 6; ++i) x *= 2 - multiplier * x;
    return x;
  }
  static uint64_t folded(uint64_t v) { return v ^ (v >> 47); }  // its own inverse
  static uint64_t mixed(uint64_t block) { return folded(block * multiplier) * multiplier; }
  static uint64_t unmixed(uint64_t data) { return folded(data * inverse()) * inverse(); }
  static bool is_plain(const std::string& text) {
    for (const char c : text)
      if (c < '!' || c > '~' || c == '"' || c == '\\') return false;
    return true;
  }

  uint64_t hash_;
};

/// `side` * `side` different strings of 32 plain characters with one hash.
inline std::vector<std::string> colliding_keys(size_t side) {
  rng random(1);
  string_hash_round state(32);
  const uint64_t between = random.next(), end = random.next();
  std::vector<std::string> first, second, keys;
  while (first.size() < side) first.push_back(state.blocks_to(between, random));
  state.set(between);
  while (second.size() < side) second.push_back(state.blocks_to(end, random));
  for (const std::string& a : first)
    for (const std::string& b : second) keys.push_back(a + b);
  return keys;
}

}  // namespace deepinfer::test
