#include "runtime/model/v41_selection.hpp"

#include <algorithm>
#include <cmath>

namespace deepinfer::model {
namespace {

// Scores held at once: rows are taken in slices, so that a long context needs no more memory.
constexpr size_t most_scores = size_t{1} << 22;

}  // namespace

float* v41_selection::weights(uint32_t rows) {
  return room(weight_, size_t{rows} * ops_.context.config.index_heads);
}

float* v41_selection::query(uint32_t rows) {
  const v41_config& c = ops_.context.config;
  return room(query_, size_t{rows} * c.index_heads * c.index_width);
}

void v41_selection::prepare(uint32_t layer, const graph_pass& pass) {
  const v41_config& c = ops_.context.config;
  const uint32_t source = c.kv_source_number(c.kv_source_of(layer));
  const bool is_candidate_source = c.candidate_source == int64_t{layer};
  const bool before = c.candidate_source < 0 || int64_t{layer} < c.candidate_source;
  plans_.resize(std::max(plans_.size(), pass.segments.size()));
  needs_scores_ = false;
  for (size_t s = 0; s < pass.segments.size(); ++s) {
    segment_plan& plan = plans_[s];
    plan.entries = pass.segments[s].target->sources[source].index_keys.size();
    if (is_candidate_source || before) plan.everything = true;
    if (is_candidate_source)
      plan.everything = plan.entries <= uint64_t{c.candidate_blocks} * c.candidate_block_size;
    plan.scores = plan.entries > c.index_top || !plan.everything;
    needs_scores_ = needs_scores_ || plan.scores;
  }
}

void v41_selection::choose(uint32_t layer, const graph_pass& pass) {
  const v41_config& c = ops_.context.config;
  room(chosen_, size_t{pass.rows} * c.index_top);
  room(count_, pass.rows);
  if (needs_scores_) {
    ops_.rope(query_.data(), pass.compressed, pass.rows, c.index_heads, c.index_width);
    if (ops_.context.level != numeric_level::L0)
      ops_.context.ops.fake_quant(
          ops_.queue, {query_.data(), query_.data(), pass.rows * c.index_heads, c.index_width,
                       kernels::row_format::fp4_32});
  }
  for (size_t s = 0; s < pass.segments.size(); ++s) {
    if (plans_[s].scores) {
      score(layer, pass.segments[s], plans_[s]);
    } else {
      choose_all(pass.segments[s], c.ratios[layer]);
    }
  }
}

void v41_selection::keep(std::span<const uint32_t> rows) {
  const size_t top = ops_.context.config.index_top;
  if (rows.empty() || rows.back() >= count_.size()) return;  // nothing was chosen yet
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r] == r) continue;
    std::copy_n(chosen_.data() + rows[r] * top, top, chosen_.data() + r * top);
    count_[r] = count_[rows[r]];
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

void v41_selection::score(uint32_t layer, const graph_segment& segment, segment_plan& plan) {
  const v41_config& c = ops_.context.config;
  const kernels::op_table& op = ops_.context.ops;
  const auto& keys = segment.target->sources[c.kv_source_number(c.kv_source_of(layer))].index_keys;
  const uint32_t entries = plan.entries, size = c.candidate_block_size;
  const uint32_t blocks = (entries + size - 1) / size;
  const bool makes_candidates = c.candidate_source == int64_t{layer} && !plan.everything;
  const bool masked =
      c.candidate_source >= 0 && int64_t{layer} > c.candidate_source && !plan.everything;
  if (makes_candidates) {
    plan.blocks = blocks;
    room(plan.mask, size_t{segment.rows()} * blocks);
  }
  uint32_t* visible_of = room(visible_, segment.rows());
  for (uint32_t i = 0; i < segment.rows(); ++i)
    visible_of[i] = (segment.position(i) + 1) / c.ratios[layer];
  const float scale = 1 / std::sqrt(static_cast<float>(c.index_width)) /
                      std::sqrt(static_cast<float>(c.index_heads));
  const auto slice = static_cast<uint32_t>(std::clamp<size_t>(most_scores / entries, 1, 1u << 20));
  float* score = room(score_, size_t{std::min(slice, segment.rows())} * entries);
  for (uint32_t first = 0; first < segment.rows(); first += slice) {
    const uint32_t rows = std::min(slice, segment.rows() - first), row = segment.first_row + first;
    const uint32_t* visible = visible_of + first;
    uint8_t* mask =
        makes_candidates || masked ? plan.mask.data() + size_t{first} * blocks : nullptr;
    const kernels::index_score_args scoring{
        score,
        query_.data() + size_t{row} * c.index_heads * c.index_width,
        weight_.data() + size_t{row} * c.index_heads,
        keys.view(),
        visible,
        masked ? mask : nullptr,
        rows,
        c.index_heads,
        c.index_width,
        entries,
        entries,
        blocks,
        size,
        scale};
    op.index_score(ops_.queue, {&scoring, 1});
    if (makes_candidates)
      op.select_blocks(ops_.queue, {mask, score, visible, rows, entries, entries, blocks, size,
                                    c.candidate_blocks});
    op.select_top(ops_.queue, {chosen_.data() + size_t{row} * c.index_top, count_.data() + row,
                               score, rows, entries, entries, c.index_top});
  }
}

}  // namespace deepinfer::model
