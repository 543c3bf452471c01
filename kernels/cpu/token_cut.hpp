#pragma once

#include "kernels/cpu/token_row.hpp"

/// Where the filters of a sampling rule end: the worst token that they keep.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

/// Mass of all tokens that `cut` keeps.
inline uint64_t total_mass(const token_row& row, const token_cut& cut) {
  wide_sum high, low;
  const vec16 edge = all(cut.logit);
  for (size_t i = 0; i < row.count; i += lane_count) {
    const vec16 x = row.load_at(i), scaled = row.scaled(x);
    if (bits_of(scaled > all(massless)) == 0) continue;
    const token_masses mass = masses_of(scaled);
    const ivec16 tie = select(counting_from(i) > all_i(cut.last), all_i(0), all_i(0xFFFFFFFFu));
    const ivec16 kept = select(x > edge, all_i(0xFFFFFFFFu), select(x == edge, tie, all_i(0)));
    high.add(mass.high & kept);
    low.add(mass.low & kept);
  }
  return (high.total() << 20) + low.total();
}

/// Counts tokens as 1 each, or by their mass.
struct by_number {
  DEEPINFER_INLINE token_masses operator()(const token_row&, vec16) const {
    return {all_i(0), all_i(1)};
  }
};
struct by_mass {
  DEEPINFER_INLINE token_masses operator()(const token_row& row, vec16 logit) const {
    return masses_of(row.scaled(logit));
  }
};

/// Finds the shortest prefix, best first, of what `outer` keeps that weighs `needed` or more (it
/// must exist): a histogram of the logits' ordered bits finds the bucket in which it ends, then a
/// finer one of that bucket, until all in it are equal.
template <class Weight>
class prefix_search {
public:
  static constexpr size_t bucket_count = 2048;
  static constexpr size_t memory_bytes = bucket_count * sizeof(uint64_t);

  prefix_search(const token_row& row, const token_cut& outer, std::byte* memory)
      : row_(row), outer_(outer), buckets_(reinterpret_cast<uint64_t*>(memory)) {}

  token_cut find(uint64_t needed, float least) {
    int32_t high = key_of(row_.highest);
    int32_t low = key_of(std::max(least, outer_.logit));
    while (low < high) {
      uint32_t shift = 0;
      const auto span = static_cast<uint32_t>(high) - static_cast<uint32_t>(low);
      while (span >> shift >= bucket_count) ++shift;
      fill(low, high, shift);
      size_t b = 0;
      for (; b + 1 < bucket_count && buckets_[b] < needed; ++b) needed -= buckets_[b];
      high = static_cast<int32_t>(high - static_cast<int64_t>(b << shift));
      const int64_t bottom = int64_t{high} - ((int64_t{1} << shift) - 1);
      low = static_cast<int32_t>(std::max<int64_t>(low, bottom));
    }
    return tie_cut(score_of(high), needed);
  }

private:
  static int32_t key_of(float logit) {
    const auto bits = bits_as<int32_t>(logit + 0.0f);
    return bits < 0 ? bits ^ 0x7FFFFFFF : bits;
  }

  // Weights by how far the key lies below `high`.
  void fill(int32_t low, int32_t high, uint32_t shift) {
    std::fill_n(buckets_, bucket_count, uint64_t{0});
    const ivec16 below = all_i(static_cast<uint32_t>(low - 1)),
                 top = all_i(static_cast<uint32_t>(high));
    for (size_t i = 0; i < row_.count; i += lane_count) {
      const vec16 x = row_.load_at(i);
      const ivec16 key = ordered_bits(x);
      uint32_t inside = bits_of(key > below) & ~bits_of(key > top);
      if (inside == 0) continue;
      const token_masses weight = Weight{}(row_, x);
      uint32_t distance[lane_count], upper[lane_count], lower[lane_count];
      store_i(distance, top - key);
      store_i(upper, weight.high);
      store_i(lower, weight.low);
      for (; inside != 0; inside &= inside - 1) {
        const auto lane = static_cast<uint32_t>(__builtin_ctz(inside));
        const auto id = static_cast<uint32_t>(i) + lane;
        if (!outer_.keeps(row_.logits[id], id)) continue;
        buckets_[distance[lane] >> shift] += (uint64_t{upper[lane]} << 20) + lower[lane];
      }
    }
  }

  // Of the tokens that equal `logit`, all of one weight, the first that weigh `needed`.
  token_cut tie_cut(float logit, uint64_t needed) {
    uint32_t last = 0;
    for (size_t i = 0; i < row_.count; i += lane_count) {
      const vec16 x = row_.load_at(i);
      uint32_t equal = bits_of(x == all(logit));
      if (equal == 0) continue;
      uint32_t upper[lane_count], lower[lane_count];
      const token_masses weight = Weight{}(row_, x);
      store_i(upper, weight.high);
      store_i(lower, weight.low);
      for (; equal != 0; equal &= equal - 1) {
        const auto lane = static_cast<uint32_t>(__builtin_ctz(equal));
        last = static_cast<uint32_t>(i) + lane;
        const uint64_t mass = (uint64_t{upper[lane]} << 20) + lower[lane];
        if (mass >= needed) return {logit, last};
        needed -= mass;
      }
    }
    return {logit, last};
  }

  const token_row& row_;
  const token_cut& outer_;
  uint64_t* buckets_;
};

struct logit_source {
  const float* logits;
  size_t count;
  [[nodiscard]] const float* chunk(size_t first, size_t) const { return logits + first; }
};

/// Up to this many the streaming selection has memory for.
inline constexpr uint32_t most_streamed = 16384;

inline token_cut cut_to_count(const token_row& row, uint32_t keep, std::byte* memory) {
  if (keep <= most_streamed) {
    candidate_list list = make_candidates(reinterpret_cast<uint32_t*>(memory), keep);
    select_best(logit_source{row.logits, row.count}, keep, list);
    if (list.count < keep) return {};  // fewer are allowed
    token_cut cut{score_of(static_cast<int32_t>(list.key[0])), list.index[0]};
    for (size_t i = 1; i < list.count; ++i) {
      const float logit = score_of(static_cast<int32_t>(list.key[i]));
      if (logit <= cut.logit) cut = {logit, list.index[i]};
    }
    return cut;
  }
  size_t allowed = 0;
  for (size_t i = 0; i < row.count; i += lane_count)
    allowed +=
        static_cast<size_t>(__builtin_popcount(bits_of(row.load_at(i) > all(minus_infinity))));
  if (allowed <= keep) return {};
  const token_cut none;
  return prefix_search<by_number>(row, none, memory).find(keep, -std::numeric_limits<float>::max());
}

inline token_cut cut_to_mass(const token_row& row,
                             const token_cut& outer,
                             float top_p,
                             std::byte* memory) {
  const uint64_t total = total_mass(row, outer);
  const uint64_t needed = std::max<uint64_t>(1, nucleus_mass(top_p, total));
  // All tokens of at most this mass together hold no more than what may be left out, so the prefix
  // ends before them. The bound is rough and therefore taken a little lower.
  const uint64_t negligible = (total - needed) / row.count;
  const double depth = negligible == 0
                           ? double{massless}
                           : portable_log(static_cast<double>(negligible) * 0x1p-40) - 1e-3;
  const double least = row.highest + depth * row.temperature - std::fabs(row.highest) * 1e-6;
  const double lowest = -std::numeric_limits<float>::max();
  return prefix_search<by_mass>(row, outer, memory)
      .find(needed, static_cast<float>(std::max(least, lowest)));
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
