#include "runtime/model/engram_recipe.hpp"

#include "runtime/model/engram_hash.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace deepinfer::model {
namespace {

__extension__ using wide = unsigned __int128;

// The multiplicative hash of NumPy's SeedSequence (after M. E. O'Neill, "Developing a seed_seq
// alternative", 2015): a key that changes with every use.
class seed_hash {
public:
  constexpr seed_hash(uint32_t key, uint32_t factor) : key_(key), factor_(factor) {}

  constexpr uint32_t operator()(uint32_t value) {
    value ^= key_;
    key_ *= factor_;
    value *= key_;
    return value ^ (value >> 16);
  }

private:
  uint32_t key_;
  uint32_t factor_;
};

constexpr uint32_t mixed(uint32_t x, uint32_t y) {
  const uint32_t value = 0xCA01F9DDu * x - 0x4973F715u * y;
  return value ^ (value >> 16);
}

// Eight words of state from a seed of at most 64 bits.
std::array<uint32_t, 8> seed_words(uint64_t seed) {
  seed_hash into(0x43B0D7E5u, 0x931E8875u);
  std::array<uint32_t, 4> pool{};
  for (size_t i = 0; i < pool.size(); ++i)
    pool[i] = into(i < 2 ? static_cast<uint32_t>(seed >> (32 * i)) : 0);
  for (size_t from = 0; from < pool.size(); ++from)
    for (size_t to = 0; to < pool.size(); ++to)
      if (from != to) pool[to] = mixed(pool[to], into(pool[from]));
  seed_hash out_of(0x8B51F9DDu, 0x58F38DEDu);
  std::array<uint32_t, 8> out{};
  for (size_t i = 0; i < out.size(); ++i) out[i] = out_of(pool[i % pool.size()]);
  return out;
}

// PCG XSL-RR 128/64 (O'Neill, "PCG: a family of simple fast space-efficient statistically good
// algorithms", 2014) as NumPy seeds it.
class pcg64 {
public:
  explicit pcg64(uint64_t seed) {
    const auto w = seed_words(seed);
    const auto half = [&w](size_t i) { return wide{w[2 * i + 1]} << 32 | w[2 * i]; };
    increment_ = (half(2) << 64 | half(3)) << 1 | 1;
    advance();
    state_ += half(0) << 64 | half(1);
    advance();
  }

  uint64_t next() {
    advance();
    const uint64_t folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
    const auto by = static_cast<int>(state_ >> 122);
    return folded >> by | folded << (-by & 63);
  }

  /// Uniform in [0, bound) for bounds above 2^32, as NumPy's generator draws 64-bit integers:
  /// multiplies, and rejects the few products that would make it uneven (Lemire 2019).
  uint64_t below(uint64_t bound) {
    wide product = wide{next()} * bound;
    if (static_cast<uint64_t>(product) < bound) {
      const uint64_t uneven = (0 - bound) % bound;
      while (static_cast<uint64_t>(product) < uneven) product = wide{next()} * bound;
    }
    return static_cast<uint64_t>(product >> 64);
  }

private:
  void advance() {
    constexpr wide factor = wide{0x2360ED051FC65DA4u} << 64 | 0x4385DF649FCCF645u;
    state_ = state_ * factor + increment_;
  }

  wide state_ = 0;
  wide increment_ = 0;
};

}  // namespace

std::vector<std::vector<uint64_t>> engram_multipliers(const engram_config& config) {
  constexpr uint64_t largest = std::numeric_limits<int64_t>::max();
  // The configuration bounds the vocabulary by 2^24, so this stays above 2^32.
  const uint64_t bound = largest / config.compressed_vocabulary / 2;
  std::vector<std::vector<uint64_t>> out;
  for (const uint32_t layer : config.layers) {
    pcg64 draw(uint64_t{10007} * layer);
    auto& row = out.emplace_back(config.longest_ngram);
    std::ranges::generate(row, [&draw, bound] { return 2 * draw.below(bound) + 1; });
  }
  return out;
}

std::vector<uint64_t> engram_row_counts(const engram_config& config) {
  std::vector<uint64_t> out;
  for (const auto& primes : engram_primes(config))
    out.push_back(std::accumulate(primes.begin(), primes.end(), uint64_t{0}));
  return out;
}

}  // namespace deepinfer::model
