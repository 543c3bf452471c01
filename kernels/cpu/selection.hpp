#pragma once

#include "kernels/cpu/vec16_math.hpp"

#include <algorithm>
#include <cmath>

/// The `keep` best of a long list of scores by the one order of `index.hpp`: higher first, then
/// lower index; -0 equals 0; NaN and -infinity never.
///
/// One pass in ascending order: what beats the threshold is appended to a short buffer; when that
/// is full it is cut to the best `keep` and the threshold raised to the last of them. Whatever
/// ties with it later has a higher index and loses. A sample of the list gives the first
/// threshold, so that ascending scores do not fill the buffer again and again.
DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

/// Scores as integers in the same order; -0 becomes 0.
DEEPINFER_INLINE ivec16 ordered_bits(vec16 score) {
  const ivec16 bits = bits_of(score + all(0.0f));
  return select(all_i(0) > bits, bits ^ all_i(0x7FFFFFFF), bits);
}

/// The largest float that is less than every score of this order.
inline float just_below(int32_t ordered) {
  const int32_t below = ordered == 0 ? -2 : ordered - 1;  // -1 is -0, which equals 0
  return bits_as<float>(below < 0 ? below ^ 0x7FFFFFFF : below);
}

inline float score_of(int32_t ordered) {
  return bits_as<float>(ordered < 0 ? ordered ^ 0x7FFFFFFF : ordered);
}

/// Entries in ascending order of index. Both arrays have room for `capacity` + 16.
struct candidate_list {
  uint32_t* key;  // ordered_bits
  uint32_t* index;
  size_t capacity;
  size_t count = 0;

  DEEPINFER_INLINE void append(ivec16 keys, ivec16 indices, mask16 chosen) {
    compress(key + count, keys, chosen);
    count += compress(index + count, indices, chosen);
  }
};

inline constexpr size_t candidate_slack = 1024;

/// Words of memory for the lists of a selection.
inline constexpr size_t candidate_words(size_t keep) {
  return 2 * (keep + candidate_slack + lane_count);
}

inline candidate_list make_candidates(uint32_t* memory, size_t keep) {
  const size_t capacity = keep + candidate_slack;
  return {memory, memory + capacity + lane_count, capacity};
}

/// How many keys are >= `least`.
inline size_t count_from(const uint32_t* key, size_t count, int32_t least) {
  // key > least - 1; the lowest possible key is never asked for, since no score has it.
  const ivec16 below = all_i(static_cast<uint32_t>(least - 1));
  size_t found = 0, i = 0;
  for (; i + lane_count <= count; i += lane_count)
    found += static_cast<size_t>(__builtin_popcount(bits_of(load_i(key + i) > below)));
  for (; i < count; ++i) found += static_cast<int32_t>(key[i]) >= least ? 1 : 0;
  return found;
}

/// A key that exactly `rank` of the keys reach, rank <= count; where ties leave none, that of the
/// tied ones, which more reach.
inline int32_t key_at_rank(const uint32_t* key, size_t count, size_t rank) {
  // Keys of numbers that are neither NaN nor -infinity lie strictly inside these.
  int64_t low = -0x7F800000LL - 1, high = 0x7F800000LL + 1;  // from low: >= rank; from high: less
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    const size_t found = count_from(key, count, static_cast<int32_t>(middle));
    if (found == rank) return static_cast<int32_t>(middle);
    (found > rank ? low : high) = middle;
  }
  return static_cast<int32_t>(low);
}

/// Cuts the list to its best `keep` <= count and returns a key that separates them from what may
/// still be better.
inline int32_t cut(candidate_list& list, size_t keep) {
  const int32_t last = key_at_rank(list.key, list.count, keep);
  size_t ties = keep - count_from(list.key, list.count, last + 1), kept = 0;
  for (size_t i = 0; i < list.count; i += lane_count) {
    // A whole vector may be read: the arrays have room. What is written lies before it.
    const ivec16 key = load_i(list.key + i), index = load_i(list.index + i);
    const uint32_t inside = bits_of(first_lanes(list.count - i));
    const uint32_t above = bits_of(key > all_i(static_cast<uint32_t>(last))) & inside;
    uint32_t tied = bits_of(key == all_i(static_cast<uint32_t>(last))) & inside, chosen = above;
    for (; tied != 0 && ties > 0; tied &= tied - 1, --ties) chosen |= tied & (0 - tied);
    if (chosen == 0) continue;
    compress(list.key + kept, key, mask_of(chosen));
    kept += compress(list.index + kept, index, mask_of(chosen));
  }
  list.count = kept;
  return last;
}

/// Lane numbers from `first`.
DEEPINFER_INLINE ivec16 counting_from(size_t first) {
  alignas(64) static constexpr uint32_t lane[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                    8, 9, 10, 11, 12, 13, 14, 15};
  return load_i(lane) + all_i(static_cast<uint32_t>(first));
}

/// Appends those of score[0..count) above the threshold, and raises it when the list is full.
inline void append_better(const float* score,
                          size_t count,
                          size_t first,
                          size_t keep,
                          candidate_list& list,
                          float& threshold) {
  vec16 limit = all(threshold);
  const auto take = [&](vec16 x, mask16 better, size_t i) {
    list.append(ordered_bits(x), counting_from(first + i), better);
    if (list.count + lane_count <= list.capacity) return;
    threshold = score_of(cut(list, keep));
    limit = all(threshold);
  };
  constexpr size_t stride = 4 * lane_count, ahead = 16 * stride;
  size_t i = 0;
  for (; i + stride <= count; i += stride) {
    for (size_t k = 0; k < stride; k += lane_count) __builtin_prefetch(score + i + ahead + k);
    uint32_t any = 0;
    for (size_t k = 0; k < stride; k += lane_count) any |= bits_of(load(score + i + k) > limit);
    if (any == 0) continue;
    for (size_t k = 0; k < stride; k += lane_count) {
      const vec16 x = load(score + i + k);
      const mask16 better = x > limit;
      if (bits_of(better) != 0) take(x, better, i + k);
    }
  }
  for (; i < count; i += lane_count) {
    const size_t left = count - i;
    const vec16 x = load_first(score + i, left);
    const mask16 better = (x > limit) & first_lanes(left);
    if (bits_of(better) != 0) take(x, better, i);
  }
}

inline constexpr size_t sample_pieces = 64, sample_piece = 2 * lane_count;

/// A threshold that somewhat more than `keep` entries will reach, unless the sample deceives.
template <class Source>
float first_threshold(const Source& scores, size_t keep, candidate_list& list) {
  constexpr size_t sampled = sample_pieces * sample_piece;
  const size_t pieces = scores.count / sample_piece;
  list.count = 0;
  for (size_t i = 0; i < sample_pieces; ++i) {
    if (list.count + sample_piece > list.capacity) break;
    const float* score = scores.chunk(pieces * i / sample_pieces * sample_piece, sample_piece);
    for (size_t k = 0; k < sample_piece; k += lane_count) {
      const vec16 x = load(score + k);
      list.append(ordered_bits(x), all_i(0), x > all(minus_infinity));
    }
  }
  const double expected =
      static_cast<double>(keep) * static_cast<double>(sampled) / static_cast<double>(scores.count);
  const auto rank = static_cast<size_t>(1.25 * expected + 4 * std::sqrt(expected)) + 4;
  if (rank > list.count) return minus_infinity;
  return just_below(key_at_rank(list.key, list.count, rank));
}

inline constexpr size_t source_chunk = 1024;

/// Leaves the `keep` best in the list, in ascending order of index. `scores` has a `count` and
/// gives `chunk(first, n)`, n <= source_chunk, a pointer that is good until the next call.
template <class Source>
void select_best(const Source& scores, size_t keep, candidate_list& list) {
  const auto pass = [&](float threshold) {
    list.count = 0;
    for (size_t first = 0; first < scores.count; first += source_chunk) {
      const size_t n = std::min(source_chunk, scores.count - first);
      append_better(scores.chunk(first, n), n, first, keep, list, threshold);
    }
    if (list.count > keep) cut(list, keep);
  };
  if (scores.count > 2 * list.capacity) {
    const float threshold = first_threshold(scores, keep, list);
    pass(threshold);
    if (list.count == keep || threshold == minus_infinity) return;
  }
  pass(minus_infinity);
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
