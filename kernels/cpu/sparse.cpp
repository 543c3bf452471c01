#include "kernels/api/number_formats.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/lanes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// Row i as fp32.
void fetch(const paged_rows& store, size_t i, uint32_t width, float* out) {
  stream queue;
  const size_t offset = (i % store.page_rows) * packed_row_bytes(store.format, width);
  unpack_rows(queue, {out, store.pages[i / store.page_rows] + offset, 1, width, store.format});
}

// Puts the `keep` best of `index[0..count)` first, by the one order of `index.hpp`. The order is
// total, so what a partial sort leaves in front does not depend on how it works.
void best_first(const float* score, uint32_t* index, uint32_t count, uint32_t keep) {
  const auto better = [score](uint32_t x, uint32_t y) {
    return score[x] != score[y] ? score[x] > score[y] : x < y;
  };
  if (keep < count) std::nth_element(index, index + keep, index + count, better);
}

void score_row(const index_score_args& a, size_t r, float* key) {
  float* out = a.score + r * a.score_stride;
  const float* query = a.query + r * a.heads * a.width;
  const float* weight = a.weight + r * a.heads;
  const uint8_t* mask = a.block_mask == nullptr ? nullptr : a.block_mask + r * a.mask_stride;
  for (uint32_t j = 0; j < a.entries; ++j) {
    if (j >= a.visible[r] || (mask != nullptr && mask[j / a.block_size] == 0)) {
      out[j] = minus_infinity;
      continue;
    }
    fetch(a.keys, j, a.width, key);
    float sum = 0;
    for (size_t h = 0; h < a.heads; ++h) {
      const float s = dot(query + h * a.width, key, a.width);
      sum += weight[h] * a.scale * (s > 0 ? s : 0.0f);
    }
    out[j] = sum;
  }
}

}  // namespace

void index_score(stream&, const index_score_batch_args& batch) {
  std::vector<float> key;
  for (uint32_t i = 0; i < batch.count; ++i) {
    key.resize(batch.items[i].width);
    for (size_t r = 0; r < batch.items[i].rows; ++r) score_row(batch.items[i], r, key.data());
  }
}

void select_blocks(stream&, const select_blocks_args& a) {
  const uint32_t blocks = (a.entries + a.block_size - 1) / a.block_size;
  std::vector<float> scratch_score(blocks);
  std::vector<uint32_t> scratch_index(blocks);
  for (size_t r = 0; r < a.rows; ++r) {
    std::fill_n(scratch_score.data(), blocks, minus_infinity);
    for (uint32_t j = 0; j < a.entries; ++j) {
      const float s = a.score[r * a.score_stride + j];
      float& block = scratch_score[j / a.block_size];
      if (s > block) block = s;
    }
    if (a.visible[r] > 0) scratch_score[(a.visible[r] - 1) / a.block_size] = -minus_infinity;
    uint32_t count = 0;
    for (uint32_t b = 0; b < blocks; ++b)
      if (scratch_score[b] > minus_infinity) scratch_index[count++] = b;
    best_first(scratch_score.data(), scratch_index.data(), count, a.keep);
    uint8_t* mask = a.mask + r * a.mask_stride;
    std::fill_n(mask, blocks, uint8_t{0});
    for (uint32_t i = 0; i < std::min(count, a.keep); ++i) mask[scratch_index[i]] = 1;
  }
}

void select_top(stream&, const select_top_args& a) {
  std::vector<uint32_t> scratch_index(a.entries);
  for (size_t r = 0; r < a.rows; ++r) {
    const float* score = a.score + r * a.score_stride;
    uint32_t count = 0;
    for (uint32_t j = 0; j < a.entries; ++j)
      if (score[j] > minus_infinity) scratch_index[count++] = j;
    best_first(score, scratch_index.data(), count, a.keep);
    const uint32_t kept = std::min(count, a.keep);
    std::sort(scratch_index.begin(), scratch_index.begin() + kept);
    int32_t* out = a.index + r * a.keep;
    for (uint32_t i = 0; i < kept; ++i) out[i] = static_cast<int32_t>(scratch_index[i]);
    a.count[r] = kept;
  }
}

namespace {

// The keys of one row as fp32, in list order.
uint32_t gather_keys(const attention_args& a, size_t r, std::vector<float>& keys) {
  const uint32_t window = a.window_count[r];
  const uint32_t count = window + (a.selected_count == nullptr ? 0 : a.selected_count[r]);
  keys.resize(size_t{count} * a.width);
  std::copy_n(a.window + size_t{a.window_first[r]} * a.width, size_t{window} * a.width,
              keys.data());
  for (uint32_t i = window; i < count; ++i)
    fetch(a.chosen, static_cast<size_t>(a.selected[r * a.selected_stride + (i - window)]), a.width,
          keys.data() + size_t{i} * a.width);
  return count;
}

// Turns scores into exp(score - m) and returns the denominator.
float soften(float* score, uint32_t count, float sink) {
  float most = score[0];
  for (uint32_t i = 1; i < count; ++i) most = score[i] > most ? score[i] : most;
  for (uint32_t i = 0; i < count; ++i) score[i] = exp_lane(score[i] - most);
  float total = 0;
  for (uint32_t i = 0; i < count; ++i) total += score[i];
  return total + exp_lane(sink - most);
}

void attend(const attention_args& a) {
  std::vector<float> keys, score;
  for (size_t r = 0; r < a.rows; ++r) {
    const uint32_t count = gather_keys(a, r, keys);
    score.resize(count);
    for (size_t h = 0; h < a.heads; ++h) {
      const float* query = a.query + (r * a.heads + h) * a.width;
      float* out = a.out + (r * a.heads + h) * a.width;
      std::fill_n(out, a.width, 0.0f);
      if (count == 0) continue;
      for (uint32_t i = 0; i < count; ++i)
        score[i] = dot(query, keys.data() + size_t{i} * a.width, a.width) * a.scale;
      const float total = soften(score.data(), count, a.sink[h]);
      for (uint32_t i = 0; i < count; ++i) {
        const float weight = rounded(score[i], a.round);
        for (size_t c = 0; c < a.width; ++c) out[c] += weight * keys[size_t{i} * a.width + c];
      }
      for (size_t c = 0; c < a.width; ++c) out[c] = rounded(out[c] / total, a.round);
    }
  }
}

}  // namespace

void attention(stream&, const attention_batch_args& batch) {
  for (uint32_t i = 0; i < batch.count; ++i) attend(batch.items[i]);
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
