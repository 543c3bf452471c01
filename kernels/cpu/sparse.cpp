#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/lanes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace deepinfer::kernels::cpu {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

const float* row_of(const paged_rows& store, size_t i, size_t width) {
  return store.pages[i / store.page_rows] + (i % store.page_rows) * width;
}

// Puts the `keep` best of `index[0..count)` first, by the one order of `index.hpp`. The order is
// total, so what a partial sort leaves in front does not depend on how it works.
void best_first(const float* score, uint32_t* index, uint32_t count, uint32_t keep) {
  const auto better = [score](uint32_t x, uint32_t y) {
    return score[x] != score[y] ? score[x] > score[y] : x < y;
  };
  if (keep < count) std::nth_element(index, index + keep, index + count, better);
}

void score_row(const index_score_args& a, size_t r) {
  float* out = a.score + r * a.score_stride;
  const float* query = a.query + r * a.heads * a.width;
  const float* weight = a.weight + r * a.heads;
  const uint8_t* mask = a.block_mask == nullptr ? nullptr : a.block_mask + r * a.mask_stride;
  for (uint32_t j = 0; j < a.entries; ++j) {
    if (j >= a.visible[r] || (mask != nullptr && mask[j / a.block_size] == 0)) {
      out[j] = minus_infinity;
      continue;
    }
    const float* key = row_of(a.keys, j, a.width);
    float sum = 0;
    for (size_t h = 0; h < a.heads; ++h) {
      const float s = dot(query + h * a.width, key, a.width);
      sum += weight[h] * a.scale * (s > 0 ? s : 0.0f);
    }
    out[j] = sum;
  }
}

}  // namespace

void index_score(stream&, const index_score_args& a) {
  for (size_t r = 0; r < a.rows; ++r) score_row(a, r);
}

void select_blocks(stream&, const select_blocks_args& a) {
  const uint32_t blocks = (a.entries + a.block_size - 1) / a.block_size;
  for (size_t r = 0; r < a.rows; ++r) {
    std::fill_n(a.scratch_score, blocks, minus_infinity);
    for (uint32_t j = 0; j < a.entries; ++j) {
      const float s = a.score[r * a.score_stride + j];
      float& block = a.scratch_score[j / a.block_size];
      if (s > block) block = s;
    }
    if (a.visible[r] > 0) a.scratch_score[(a.visible[r] - 1) / a.block_size] = -minus_infinity;
    uint32_t count = 0;
    for (uint32_t b = 0; b < blocks; ++b)
      if (a.scratch_score[b] > minus_infinity) a.scratch_index[count++] = b;
    best_first(a.scratch_score, a.scratch_index, count, a.keep);
    uint8_t* mask = a.mask + r * a.mask_stride;
    std::fill_n(mask, blocks, uint8_t{0});
    for (uint32_t i = 0; i < std::min(count, a.keep); ++i) mask[a.scratch_index[i]] = 1;
  }
}

void select_top(stream&, const select_top_args& a) {
  for (size_t r = 0; r < a.rows; ++r) {
    const float* score = a.score + r * a.score_stride;
    uint32_t count = 0;
    for (uint32_t j = 0; j < a.entries; ++j)
      if (score[j] > minus_infinity) a.scratch_index[count++] = j;
    best_first(score, a.scratch_index, count, a.keep);
    const uint32_t kept = std::min(count, a.keep);
    std::sort(a.scratch_index, a.scratch_index + kept);
    int32_t* out = a.index + r * a.keep;
    for (uint32_t i = 0; i < kept; ++i) out[i] = static_cast<int32_t>(a.scratch_index[i]);
    a.count[r] = kept;
  }
}

namespace {

// The keys of one row, by list position.
struct key_list {
  const attention_args& args;
  size_t row;
  uint32_t window;
  uint32_t count;

  key_list(const attention_args& a, size_t r)
      : args(a),
        row(r),
        window(a.window_count[r]),
        count(window + (a.selected_count == nullptr ? 0 : a.selected_count[r])) {}

  const float* operator[](uint32_t i) const {
    if (i < window) return args.window + (args.window_first[row] + size_t{i}) * args.width;
    const int32_t entry = args.selected[row * args.selected_stride + (i - window)];
    return row_of(args.chosen, static_cast<size_t>(entry), args.width);
  }
};

// Turns scores into exp(score - m) and returns the denominator.
float soften(float* score, uint32_t count, float sink) {
  float most = score[0];
  for (uint32_t i = 1; i < count; ++i) most = score[i] > most ? score[i] : most;
  for (uint32_t i = 0; i < count; ++i) score[i] = exp_lane(score[i] - most);
  float total = 0;
  for (uint32_t i = 0; i < count; ++i) total += score[i];
  return total + exp_lane(sink - most);
}

// out[c] = sum_i weight[i] key_i[c] / total; channels in tiles that fit the registers, keys in list
// order for each of them.
void weighted_sum(const key_list& keys, const float* weight, float total, float* out) {
  constexpr size_t tile = 16;
  const size_t width = keys.args.width, whole = width - width % tile;
  for (size_t c = 0; c < whole; c += tile) {
    f32x4 sum[4] = {};
    for (uint32_t i = 0; i < keys.count; ++i) {
      const float* key = keys[i] + c;
      const f32x4 w = all4(weight[i]);
      for (size_t v = 0; v < 4; ++v) sum[v] += w * load4(key + 4 * v);
    }
    for (size_t v = 0; v < 4; ++v) store4(out + c + 4 * v, sum[v] / all4(total));
  }
  for (size_t c = whole; c < width; ++c) {
    float sum = 0;
    for (uint32_t i = 0; i < keys.count; ++i) sum += weight[i] * keys[i][c];
    out[c] = sum / total;
  }
}

}  // namespace

void attention(stream&, const attention_args& a) {
  for (size_t r = 0; r < a.rows; ++r) {
    const key_list keys(a, r);
    const float* query = a.query + r * a.heads * a.width;
    float* out = a.out + r * a.heads * a.width;
    if (keys.count == 0) {
      std::fill_n(out, size_t{a.heads} * a.width, 0.0f);
      continue;
    }
    for (uint32_t i = 0; i < keys.count; ++i) {
      const float* key = keys[i];
      for (size_t h = 0; h < a.heads; ++h)
        a.scratch[h * a.scratch_stride + i] = dot(query + h * a.width, key, a.width) * a.scale;
    }
    for (size_t h = 0; h < a.heads; ++h) {
      float* score = a.scratch + h * a.scratch_stride;
      const float total = soften(score, keys.count, a.sink[h]);
      weighted_sum(keys, score, total, out + h * a.width);
    }
  }
}

}  // namespace deepinfer::kernels::cpu
