#include "runtime/model/v41_graph.hpp"

#include <algorithm>
#include <cstring>

namespace deepinfer::model {

v41_graph::v41_graph(const graph_context& context, const engram_hash* engram)
    : ops_(context),
      engram_(engram),
      attention_(context),
      experts_(context),
      plain_frequency_(rope_frequencies(context.config, context.config.rope_base, {})),
      compressed_frequency_(rope_frequencies(
          context.config, context.config.compressed_rope_base, context.config.yarn)) {}

void v41_graph::run(std::span<const graph_segment> segments, std::span<layer_record> records) {
  prepare(segments);
  for (uint32_t layer = 0; layer < ops_.context.config.layers; ++layer) {
    if (ops_.context.weights.layers[layer].engram) engram(layer);
    block(layer, records.empty() ? nullptr : &records[layer]);
  }
  commit();
}

// Everything that depends on ids and positions alone, then the embedding.
void v41_graph::prepare(std::span<const graph_segment> segments) {
  const v41_config& c = ops_.context.config;
  const kernels::op_table& op = ops_.context.ops;
  pass_.segments = segments;
  pass_.position.clear();
  ids_.clear();
  recent_.clear();
  const uint32_t look_back = engram_ == nullptr ? 0 : engram_->look_back();
  for (const graph_segment& s : segments)
    for (uint32_t i = 0; i < s.rows(); ++i) {
      ids_.push_back(s.tokens[i]);
      pass_.position.push_back(s.position(i));
      for (uint32_t k = 0; engram_ != nullptr && k <= look_back; ++k)
        recent_.push_back(k <= i ? engram_->compressed(s.tokens[i - k])
                                 : s.target->look_back[k - i - 1]);
    }
  pass_.rows = static_cast<uint32_t>(ids_.size());
  const uint32_t pairs = c.rope_width / 2;
  for (const auto& [angles, frequency] : {std::pair(&pass_.plain, &plain_frequency_),
                                          std::pair(&pass_.compressed, &compressed_frequency_)})
    op.rope_table(ops_.queue, {room(angles->cos, size_t{pass_.rows} * pairs),
                               room(angles->sin, size_t{pass_.rows} * pairs), pass_.position.data(),
                               frequency->data(), pass_.rows, pairs});
  op.embed(ops_.queue,
           {room(x_, size_t{pass_.rows} * c.streams * c.width), ops_.context.weights.embedding,
            ids_.data(), pass_.rows, c.streams, c.width});
  // The first sublayer reads stream 0 alone.
  pre_.assign(size_t{pass_.rows} * c.streams, 0.0f);
  for (uint32_t r = 0; r < pass_.rows; ++r) pre_[size_t{r} * c.streams] = 1;
}

void v41_graph::engram(uint32_t layer) {
  const v41_config& c = ops_.context.config;
  const kernels::op_table& op = ops_.context.ops;
  const engram_weights& w = *ops_.context.weights.layers[layer].engram;
  const auto number =
      static_cast<uint32_t>(std::ranges::find(c.engram.layers, layer) - c.engram.layers.begin());
  const uint32_t columns = engram_->columns(), recent = engram_->look_back() + 1;
  int64_t* id = room(table_rows_, size_t{pass_.rows} * columns);
  for (size_t r = 0; r < pass_.rows; ++r)
    engram_->rows(number, std::span(recent_).subspan(r * recent, recent),
                  std::span(id + r * columns, columns));
  float* values = room(table_values_, size_t{pass_.rows} * columns * c.engram.row_width);
  op.engram_rows(ops_.queue,
                 {values, w.table, w.scales, id, pass_.rows * columns, c.engram.row_width});
  float* kv = room(key_value_, size_t{pass_.rows} * (c.streams + 1) * c.width);
  ops_.linear(kv, values, w.key_value, pass_.rows);
  op.engram_gate(ops_.queue, {x_.data(), kv, w.gain.data(), pass_.rows, c.streams, c.width,
                              static_cast<float>(c.norm_epsilon)});
}

// "Single-pass" hyper-connections: a sublayer reads the streams through the `pre` of the sublayer
// before it, and writes them through its own `post` and `comb`.
void v41_graph::block(uint32_t layer, layer_record* record) {
  const v41_config& c = ops_.context.config;
  const layer_weights& w = ops_.context.weights.layers[layer];
  const size_t rows = pass_.rows, mixes = rows * c.streams;
  float* in = room(in_, rows * c.width);
  float* out = room(out_, rows * c.width);
  float* next = room(next_pre_, mixes);
  float* post = room(post_, mixes);
  float* comb = room(comb_, mixes * c.streams);
  const auto keep = [](std::vector<float>& to, const float* from, size_t count) {
    to.insert(to.end(), from, from + count);
  };

  mix(w.attention_mix, next, post, comb);
  collapse(pre_.data(), w.attention_norm, in);
  attention_.run(layer, pass_, in, out, record);
  expand(out, post, comb);
  if (record != nullptr) {
    keep(record->attention_in, in, rows * c.width);
    keep(record->attention_out, out, rows * c.width);
  }

  mix(w.expert_mix, pre_.data(), post, comb);
  collapse(next, w.expert_norm, in);
  experts_.run(layer, pass_.rows, in, out, record);
  expand(out, post, comb);
  if (record != nullptr) {
    keep(record->expert_in, in, rows * c.width);
    keep(record->expert_out, out, rows * c.width);
    keep(record->stream, x_.data(), mixes * c.width);
    keep(record->pre, pre_.data(), mixes);
  }
}

void v41_graph::mix(const hyper_weights& w, float* pre, float* post, float* comb) {
  const v41_config& c = ops_.context.config;
  ops_.context.ops.hc_mix(
      ops_.queue, {pre, post, comb, x_.data(), w.fn.data(), w.base.data(), w.scale.data(),
                   pass_.rows, c.streams, c.width, c.mix_rounds, static_cast<float>(c.norm_epsilon),
                   static_cast<float>(c.mix_epsilon)});
}

void v41_graph::collapse(const float* pre, const std::vector<float>& gain, float* out) {
  const v41_config& c = ops_.context.config;
  ops_.context.ops.hc_collapse(ops_.queue, {out, x_.data(), pre, pass_.rows, c.streams, c.width});
  ops_.norm(out, gain, pass_.rows);
}

void v41_graph::expand(const float* y, const float* post, const float* comb) {
  const v41_config& c = ops_.context.config;
  ops_.context.ops.hc_expand(ops_.queue,
                             {x_.data(), y, post, comb, pass_.rows, c.streams, c.width});
}

// The sequences now stand behind the rows of this pass.
void v41_graph::commit() {
  for (const graph_segment& s : pass_.segments) {
    auto& back = s.target->look_back;
    const size_t recent = back.size() + 1;
    const size_t last = size_t{s.first_row} + s.rows() - 1;
    if (engram_ != nullptr)
      std::copy_n(recent_.begin() + static_cast<std::ptrdiff_t>(last * recent), back.size(),
                  back.begin());
    s.target->computed += s.rows();
  }
}

void v41_graph::logits(std::span<const uint32_t> rows, float* out) {
  const v41_config& c = ops_.context.config;
  const auto count = static_cast<uint32_t>(rows.size());
  float* hidden = room(final_, size_t{count} * c.width);
  for (size_t i = 0; i < rows.size(); ++i)
    ops_.context.ops.hc_collapse(
        ops_.queue, {hidden + i * c.width, x_.data() + size_t{rows[i]} * c.streams * c.width,
                     pre_.data() + size_t{rows[i]} * c.streams, 1, c.streams, c.width});
  ops_.norm(hidden, ops_.context.weights.norm, count);
  ops_.linear(out, hidden, ops_.context.weights.head, count);
}

}  // namespace deepinfer::model
