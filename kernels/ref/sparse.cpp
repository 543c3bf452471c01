#include "kernels/api/number_formats.hpp"
#include "kernels/ref/ref.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

namespace deepinfer::kernels::ref {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

std::vector<float> row_of(const paged_rows& store, size_t i, uint32_t width) {
  std::vector<float> row(width);
  stream s;
  unpack_rows(s, {row.data(),
                  store.pages[i / store.page_rows] +
                      (i % store.page_rows) * packed_row_bytes(store.format, width),
                  1, width, store.format});
  return row;
}

double dot(const float* x, const float* y, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += double{x[i]} * y[i];
  return sum;
}

// The `keep` best of `score` in ascending order of index, by the one order of `index.hpp`.
std::vector<size_t> best(const std::vector<double>& score, size_t keep) {
  std::vector<size_t> order;
  for (size_t i = 0; i < score.size(); ++i)
    if (score[i] > minus_infinity) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t x, size_t y) { return score[x] > score[y]; });
  order.resize(std::min(order.size(), keep));
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

namespace {

void score(const index_score_args& a) {
  for (size_t r = 0; r < a.rows; ++r)
    for (size_t j = 0; j < a.entries; ++j) {
      const bool masked =
          a.block_mask != nullptr && a.block_mask[r * a.mask_stride + j / a.block_size] == 0;
      double sum = 0;
      for (size_t h = 0; h < a.heads && j < a.visible[r] && !masked; ++h) {
        const float* query = a.query + (r * a.heads + h) * a.width;
        sum += double{a.weight[r * a.heads + h]} * a.scale *
               std::fmax(0.0, dot(query, row_of(a.keys, j, a.width).data(), a.width));
      }
      a.score[r * a.score_stride + j] =
          static_cast<float>(j < a.visible[r] && !masked ? sum : minus_infinity);
    }
}

}  // namespace

void index_score(stream&, const index_score_batch_args& batch) {
  for (uint32_t i = 0; i < batch.count; ++i) score(batch.items[i]);
}

void select_blocks(stream&, const select_blocks_args& a) {
  const size_t blocks = (a.entries + a.block_size - 1) / a.block_size;
  for (size_t r = 0; r < a.rows; ++r) {
    std::vector<double> score(blocks, minus_infinity);
    for (size_t j = 0; j < a.entries; ++j) {
      const double s = a.score[r * a.score_stride + j];
      if (s > score[j / a.block_size]) score[j / a.block_size] = s;
    }
    if (a.visible[r] > 0) score[(a.visible[r] - 1) / a.block_size] = -minus_infinity;
    std::fill_n(a.mask + r * a.mask_stride, blocks, uint8_t{0});
    for (const size_t b : best(score, a.keep)) a.mask[r * a.mask_stride + b] = 1;
  }
}

void select_top(stream&, const select_top_args& a) {
  for (size_t r = 0; r < a.rows; ++r) {
    const float* row = a.score + r * a.score_stride;
    const auto chosen = best(std::vector<double>(row, row + a.entries), a.keep);
    a.count[r] = static_cast<uint32_t>(chosen.size());
    std::copy(chosen.begin(), chosen.end(), a.index + r * a.keep);
  }
}

namespace {

void attend(const attention_args& a) {
  for (size_t r = 0; r < a.rows; ++r) {
    std::vector<std::vector<float>> keys;
    for (size_t i = 0; i < a.window_count[r]; ++i) {
      const float* key = a.window + (a.window_first[r] + i) * a.width;
      keys.emplace_back(key, key + a.width);
    }
    for (size_t i = 0; a.selected_count != nullptr && i < a.selected_count[r]; ++i)
      keys.push_back(row_of(a.chosen, a.selected[r * a.selected_stride + i], a.width));
    for (size_t h = 0; h < a.heads; ++h) {
      const float* query = a.query + (r * a.heads + h) * a.width;
      float* out = a.out + (r * a.heads + h) * a.width;
      std::vector<double> s;
      for (const auto& key : keys) s.push_back(a.scale * dot(query, key.data(), a.width));
      const double most = s.empty() ? 0 : *std::max_element(s.begin(), s.end());
      double total = std::exp(a.sink[h] - most);
      for (double& v : s) {
        v = std::exp(v - most);
        total += v;
        if (a.round == rounding::bf16) v = rounded(static_cast<float>(v), a.round);
      }
      for (size_t c = 0; c < a.width; ++c) {
        double sum = 0;
        for (size_t i = 0; i < keys.size(); ++i) sum += s[i] * keys[i][c];
        out[c] = rounded(static_cast<float>(keys.empty() ? 0 : sum / total), a.round);
      }
    }
  }
}

}  // namespace

void attention(stream&, const attention_batch_args& batch) {
  for (uint32_t i = 0; i < batch.count; ++i) attend(batch.items[i]);
}

}  // namespace deepinfer::kernels::ref
