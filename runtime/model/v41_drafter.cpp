#include "runtime/model/v41_drafter.hpp"

#include "kernels/api/number_formats.hpp"

#include <algorithm>
#include <cstring>

namespace deepinfer::model {

v41_drafter::v41_drafter(const graph_context& context)
    : ops_(context),
      attention_(context),
      experts_(context),
      streams_(context),
      frequency_(rope_frequencies(context.config, context.config.rope_base, {})) {}

// Positions and angles; a stage has no compressed branch.
void v41_drafter::fill(graph_pass& pass) {
  pass.place_rows();
  ops_.angles(pass.plain, pass.position, frequency_);
}

void v41_drafter::commit(std::span<const graph_segment> segments, const float* taps) {
  const v41_config& c = ops_.context.config;
  const drafter_weights& w = *ops_.context.weights.drafter;
  pass_.segments.assign(segments.begin(), segments.end());
  fill(pass_);
  if (pass_.rows == 0) return;
  const activation all = ops_.prepare(taps, pass_.rows, w.main.width, quantised_taps_);
  float* main = room(main_, size_t{pass_.rows} * c.width);
  ops_.linear(ops_.product(main, all, w.main));
  ops_.norm(main, w.main_norm, pass_.rows);
  const activation in = ops_.prepare(main, pass_.rows, c.width, quantised_main_);
  for (uint32_t m = 0; m < w.stages.size(); ++m) attention_.commit_draft(w.stages[m], m, pass_, in);
}

std::vector<draft_proposal> v41_drafter::draft(std::span<v41_sequence* const> targets,
                                               std::span<const int32_t> anchors,
                                               detail wanted) {
  const v41_config& c = ops_.context.config;
  const drafter_weights& w = *ops_.context.weights.drafter;
  const uint32_t block = c.drafter.block;
  ids_.assign(targets.size() * block, static_cast<int32_t>(c.drafter.noise_token));
  for (size_t i = 0; i < targets.size(); ++i) ids_[i * block] = anchors[i];
  pass_.segments.clear();
  for (size_t i = 0; i < targets.size(); ++i)
    pass_.segments.push_back({.target = targets[i],
                              .tokens = std::span(ids_).subspan(i * block, block),
                              .start = targets[i]->computed,
                              .first_row = static_cast<uint32_t>(i) * block});
  fill(pass_);
  streams_.start(ids_, nullptr);
  float* in = room(in_, size_t{pass_.rows} * c.width);
  float* out = room(out_, size_t{pass_.rows} * c.width);
  for (uint32_t m = 0; m < w.stages.size(); ++m) {
    const layer_weights& stage = w.stages[m];
    streams_.read(stage.attention_norm, in);
    attention_.run_draft(stage, m, pass_, in, streams_.mix_product(stage.attention_mix), out);
    streams_.write(stage.attention_mix, out);
    const auto mix = streams_.mix_product(stage.expert_mix);
    streams_.read(stage.expert_norm, in);
    experts_.run(stage, pass_, in, mix, out, nullptr);
    streams_.write(stage.expert_mix, out);
  }
  std::vector<draft_proposal> proposals(targets.size());
  head(proposals, anchors, wanted);
  return proposals;
}

// Token by token, each biased by the one before it; all sequences advance together.
void v41_drafter::head(std::span<draft_proposal> out,
                       std::span<const int32_t> anchors,
                       detail wanted) {
  const v41_config& c = ops_.context.config;
  const drafter_weights& w = *ops_.context.weights.drafter;
  const uint32_t block = c.drafter.block, rank = c.drafter.markov_rank, rows = pass_.rows;
  const auto count = static_cast<uint32_t>(out.size());
  const size_t vocabulary = c.vocabulary;
  std::vector<uint32_t> every(rows);
  for (uint32_t r = 0; r < rows; ++r) every[r] = r;
  float* hidden = room(hidden_, size_t{rows} * c.width);
  streams_.collapse(every, hidden);
  float* normed = room(normed_, size_t{rows} * c.width);
  std::copy_n(hidden, size_t{rows} * c.width, normed);
  ops_.norm(normed, w.norm, rows);
  float* logits = room(logits_, rows * vocabulary);
  ops_.linear(graph_ops::exact_product(logits, normed, ops_.context.weights.head, rows));
  const size_t joined_width = size_t{c.width} + rank;
  float* joined = room(joined_, rows * joined_width);
  float* markov = room(markov_, size_t{count} * rank);
  float* bias = room(bias_, count * vocabulary);
  std::vector<int32_t> previous(anchors.begin(), anchors.end());
  for (uint32_t i = 0; i < block; ++i) {
    for (size_t s = 0; s < count; ++s) {
      const uint8_t* row = w.markov_embedding + static_cast<size_t>(previous[s]) * rank * 2;
      for (size_t k = 0; k < rank; ++k) {
        uint16_t bits;
        std::memcpy(&bits, row + 2 * k, sizeof bits);
        markov[s * rank + k] = kernels::bf16_value(bits);
      }
      float* at = joined + (s * block + i) * joined_width;
      std::copy_n(hidden + (s * block + i) * c.width, c.width, at);
      std::copy_n(markov + s * rank, rank, at + c.width);
    }
    ops_.linear(graph_ops::exact_product(bias, markov, w.markov_head, count));
    for (size_t s = 0; s < count; ++s) {
      float* row = logits + (s * block + i) * vocabulary;
      for (size_t v = 0; v < vocabulary; ++v) row[v] += bias[s * vocabulary + v];
      // The first of equal ones, as everywhere.
      previous[s] = static_cast<int32_t>(std::max_element(row, row + vocabulary) - row);
      out[s].tokens.push_back(previous[s]);
    }
  }
  float* confidence = room(confidence_, rows);
  ops_.linear(graph_ops::exact_product(confidence, joined, w.confidence, rows));
  for (size_t s = 0; s < count; ++s) {
    out[s].confidence.assign(confidence + s * block, confidence + (s + 1) * block);
    if (wanted == detail::logits)
      out[s].logits.assign(logits + s * block * vocabulary, logits + (s + 1) * block * vocabulary);
  }
}

}  // namespace deepinfer::model
