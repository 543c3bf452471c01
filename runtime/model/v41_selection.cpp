#include "runtime/model/v41_selection.hpp"

#include <algorithm>
#include <cmath>

namespace deepinfer::model {
namespace {

// Scores held at once: rows are taken in slices, so that a long context needs no more memory.
constexpr size_t most_scores = size_t{1} << 22;

}  // namespace

void v41_selection::choose(uint32_t layer,
                           const graph_pass& pass,
                           const float* x,
                           const float* query_rank) {
  const v41_config& c = ops_.context.config;
  const auto source = c.kv_source_number(c.kv_source_of(layer));
  const bool is_candidate_source = c.candidate_source == int64_t{layer};
  room(chosen_, size_t{pass.rows} * c.index_top);
  room(count_, pass.rows);
  if (candidates_.size() < pass.segments.size()) candidates_.resize(pass.segments.size());
  query_ready_ = false;
  for (size_t s = 0; s < pass.segments.size(); ++s) {
    const graph_segment& segment = pass.segments[s];
    candidates& allowed = candidates_[s];
    const uint32_t entries = segment.target->sources[source].index_keys.size();
    if (is_candidate_source || int64_t{layer} < c.candidate_source || c.candidate_source < 0)
      allowed.everything = true;
    if (is_candidate_source)
      allowed.everything = entries <= uint64_t{c.candidate_blocks} * c.candidate_block_size;
    // With so few entries every visible one is chosen whatever its score.
    if (entries <= c.index_top && allowed.everything) {
      choose_all(segment, c.ratios[layer]);
      continue;
    }
    if (!query_ready_) query(layer, pass, x, query_rank);
    score_and_choose(layer, segment, allowed);
  }
}

void v41_selection::choose_all(const graph_segment& segment, uint32_t ratio) {
  const uint32_t top = ops_.context.config.index_top;
  for (uint32_t i = 0; i < segment.rows(); ++i) {
    const uint32_t visible = (segment.position(i) + 1) / ratio;
    int32_t* out = chosen_.data() + size_t{segment.first_row + i} * top;
    for (uint32_t j = 0; j < visible; ++j) out[j] = static_cast<int32_t>(j);
    count_[segment.first_row + i] = visible;
  }
}

void v41_selection::query(uint32_t layer,
                          const graph_pass& pass,
                          const float* x,
                          const float* query_rank) {
  const v41_config& c = ops_.context.config;
  const chooser_weights& w = *ops_.context.weights.layers[layer].chooser;
  float* query = room(query_, size_t{pass.rows} * c.index_heads * c.index_width);
  ops_.linear(query, query_rank, w.query, pass.rows);
  ops_.rope(query, pass.compressed, pass.rows, c.index_heads, c.index_width);
  ops_.quantise(query, pass.rows * c.index_heads, c.index_width, kernels::row_format::fp4_32);
  ops_.linear(room(head_weight_, size_t{pass.rows} * c.index_heads), x, w.head_weight, pass.rows);
  query_ready_ = true;
}

void v41_selection::score_and_choose(uint32_t layer,
                                     const graph_segment& segment,
                                     candidates& allowed) {
  const v41_config& c = ops_.context.config;
  const kernels::op_table& op = ops_.context.ops;
  const auto& keys = segment.target->sources[c.kv_source_number(c.kv_source_of(layer))].index_keys;
  const uint32_t entries = keys.size(), size = c.candidate_block_size;
  const uint32_t blocks = (entries + size - 1) / size;
  const bool makes_candidates = c.candidate_source == int64_t{layer} && !allowed.everything;
  const bool masked =
      c.candidate_source >= 0 && int64_t{layer} > c.candidate_source && !allowed.everything;
  if (makes_candidates) {
    allowed.blocks = blocks;
    room(allowed.mask, size_t{segment.rows()} * blocks);
  }
  for (uint32_t i = 0; i < segment.rows(); ++i)
    room(visible_, segment.rows())[i] = (segment.position(i) + 1) / c.ratios[layer];
  const float scale = 1 / std::sqrt(static_cast<float>(c.index_width)) /
                      std::sqrt(static_cast<float>(c.index_heads));
  const auto slice = static_cast<uint32_t>(std::clamp<size_t>(most_scores / entries, 1, 1u << 20));
  float* score = room(score_, size_t{std::min(slice, segment.rows())} * entries);
  uint32_t* scratch = room(scratch_index_, entries);
  for (uint32_t first = 0; first < segment.rows(); first += slice) {
    const uint32_t rows = std::min(slice, segment.rows() - first), row = segment.first_row + first;
    const uint32_t* visible = visible_.data() + first;
    uint8_t* mask =
        makes_candidates || masked ? allowed.mask.data() + size_t{first} * blocks : nullptr;
    op.index_score(ops_.queue, {score, query_.data() + size_t{row} * c.index_heads * c.index_width,
                                head_weight_.data() + size_t{row} * c.index_heads, keys.view(),
                                visible, masked ? mask : nullptr, rows, c.index_heads,
                                c.index_width, entries, entries, blocks, size, scale});
    if (makes_candidates)
      op.select_blocks(ops_.queue, {mask, score, visible, room(block_score_, blocks), scratch, rows,
                                    entries, entries, blocks, size, c.candidate_blocks});
    op.select_top(ops_.queue, {chosen_.data() + size_t{row} * c.index_top, count_.data() + row,
                               score, scratch, rows, entries, entries, c.index_top});
  }
}

}  // namespace deepinfer::model
