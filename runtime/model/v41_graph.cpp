#include "runtime/model/v41_graph.hpp"

#include "runtime/model/table_prefetch.hpp"

#include <algorithm>
#include <cstring>

namespace deepinfer::model {

v41_graph::v41_graph(const graph_context& context, const engram_hash* engram)
    : ops_(context),
      engram_(engram),
      attention_(context),
      experts_(context),
      streams_(context),
      plain_frequency_(rope_frequencies(context.config, context.config.rope_base, {})),
      compressed_frequency_(rope_frequencies(
          context.config, context.config.compressed_rope_base, context.config.yarn)),
      table_rows_(context.config.engram.layers.size()) {}

void v41_graph::run(std::span<const graph_segment> segments, const run_options& options) {
  const v41_config& c = ops_.context.config;
  const auto& targets = c.drafter.target_layers;
  swap_patience own{ops_.context.swap_wait};
  swap_patience& patience = options.patience != nullptr ? *options.patience : own;
  prepare(segments);
  taps_.clear();
  for (uint32_t layer = 0; layer < c.layers && streams_.rows() != 0; ++layer) {
    if (layer > 0 && !options.teacher.empty()) {
      const layer_record& from = options.teacher[layer - 1];
      const size_t mixes = size_t{pass_.rows} * c.streams, first = options.teacher_row * c.streams;
      streams_.assign(std::span(from.stream).subspan(first * c.width, mixes * c.width),
                      std::span(from.pre).subspan(first, mixes));
    }
    if (ops_.context.weights.layers[layer].engram) engram(layer);
    const auto target = std::ranges::find(targets, layer);
    if (options.taps && target != targets.end())
      tap(static_cast<uint32_t>(target - targets.begin()));
    if (ops_.context.weights.layers[layer].source) await_entries(layer, patience);
    block(layer, options.records.empty() ? nullptr : &options.records[layer]);
  }
  commit();
}

// The first layer that reads or adds entries of a source. Rows of a sequence whose entries do not
// come run on for the others' sake; whoever steps them looks at `lost`.
void v41_graph::await_entries(uint32_t layer, swap_patience& patience) {
  const uint32_t number = ops_.context.config.kv_source_number(layer);
  for (const graph_segment& s : pass_.segments)
    if (s.target->landing != nullptr) static_cast<void>(s.target->await_entries(number, patience));
}

// What Engram knows of a segment's token: an image's positions are dead.
int64_t v41_graph::compressed(const graph_segment& s, size_t i) const {
  return s.is_image(i) ? engram_hash::no_token : engram_->compressed(s.tokens[i]);
}

// Everything that depends on ids and positions alone, then the embedding.
void v41_graph::prepare(std::span<const graph_segment> segments) {
  current_ = &pass_;
  pass_.segments.assign(segments.begin(), segments.end());
  ids_.clear();
  instead_.clear();
  bool images = false;
  for (const graph_segment& s : segments) {
    ids_.insert(ids_.end(), s.tokens.begin(), s.tokens.end());
    if (s.instead.empty()) {
      instead_.resize(ids_.size(), nullptr);
    } else {
      instead_.insert(instead_.end(), s.instead.begin(), s.instead.end());
      images = true;
    }
  }
  replays_ = std::ranges::any_of(
      segments, [](const graph_segment& s) { return s.start < s.target->cone.end; });
  fill(pass_);
  pass_.image.clear();
  for (size_t r = 0; images && r < instead_.size(); ++r)
    pass_.image.push_back(instead_[r] != nullptr ? 1 : 0);
  if (engram_ != nullptr) look_up(segments);
  streams_.start(ids_, images ? instead_.data() : nullptr);
}

// Positions and angles of a pass whose segments are set.
void v41_graph::fill(graph_pass& pass) {
  pass.place_rows();
  ops_.angles(pass.plain, pass.position, plain_frequency_);
  ops_.angles(pass.compressed, pass.position, compressed_frequency_);
}

// The rows of every Engram table this pass will read; the reads are issued before layer 0, since
// ids are all they depend on.
void v41_graph::look_up(std::span<const graph_segment> segments) {
  const v41_config& c = ops_.context.config;
  const uint32_t look_back = engram_->look_back();
  const size_t recent = look_back + 1, columns = engram_->columns();
  recent_.clear();
  for (const graph_segment& s : segments)
    for (uint32_t i = 0; i < s.rows(); ++i)
      for (uint32_t k = 0; k <= look_back; ++k)
        recent_.push_back(k <= i ? compressed(s, i - k) : s.target->look_back[k - i - 1]);
  for (uint32_t number = 0; number < table_rows_.size(); ++number) {
    int64_t* id = room(table_rows_[number], pass_.rows * columns);
    for (size_t r = 0; r < pass_.rows; ++r)
      engram_->rows(number, std::span(recent_).subspan(r * recent, recent),
                    std::span(id + r * columns, columns));
    const engram_weights& w = *ops_.context.weights.layers[c.engram.layers[number]].engram;
    prefetch_rows({w.table, c.engram.row_width, w.rows}, std::span(id, pass_.rows * columns));
    prefetch_rows({w.scales, c.engram.row_width / 32, w.rows}, std::span(id, pass_.rows * columns));
  }
}

void v41_graph::engram(uint32_t layer) {
  const v41_config& c = ops_.context.config;
  const kernels::op_table& op = ops_.context.ops;
  const engram_weights& w = *ops_.context.weights.layers[layer].engram;
  const auto number = std::ranges::find(c.engram.layers, layer) - c.engram.layers.begin();
  const uint32_t columns = engram_->columns(), rows = current_->rows;
  const int64_t* id = table_rows_[static_cast<size_t>(number)].data();
  if (current_ != &pass_) {
    int64_t* kept = room(kept_table_rows_, size_t{rows} * columns);
    for (size_t r = 0; r < rows; ++r)
      std::copy_n(id + size_t{kept_source_[r]} * columns, columns, kept + r * columns);
    id = kept;
  }
  const uint32_t width = columns * c.engram.row_width;
  float* values = room(table_values_, size_t{rows} * width);
  op.engram_rows(ops_.queue, {values, w.table, w.scales, id, rows * columns, c.engram.row_width});
  float* kv = room(key_value_, size_t{rows} * (c.streams + 1) * c.width);
  ops_.linear(ops_.product(kv, ops_.prepare(values, rows, width, quantised_values_), w.key_value));
  op.engram_gate(ops_.queue, {streams_.x(), kv, w.gain.data(), current_->is_image(), rows,
                              c.streams, c.width, static_cast<float>(c.norm_epsilon), ops_.bf16()});
}

// What the drafter reads of a target layer: the mean of the streams entering it.
void v41_graph::tap(uint32_t number) {
  const v41_config& c = ops_.context.config;
  const size_t rows = current_->rows, all = c.drafter.target_layers.size() * c.width;
  room(taps_, rows * all);
  streams_.mean(room(tap_, rows * c.width));
  for (size_t r = 0; r < rows; ++r)
    std::memcpy(taps_.data() + r * all + size_t{number} * c.width, tap_.data() + r * c.width,
                c.width * sizeof(float));
}

void v41_graph::block(uint32_t layer, layer_record* record) {
  const v41_config& c = ops_.context.config;
  const layer_weights& w = ops_.context.weights.layers[layer];
  attention(layer, record);
  const size_t rows = current_->rows;
  if (rows == 0) return;
  const auto mix = streams_.mix_product(w.expert_mix);
  float* in = room(in_, rows * c.width);
  float* out = room(out_, rows * c.width);
  streams_.read(w.expert_norm, in);
  experts_.run(w, *current_, in, mix, out, record);
  streams_.write(w.expert_mix, out);
  if (record == nullptr) return;
  const auto keep = [](std::vector<float>& to, const float* from, size_t count) {
    to.insert(to.end(), from, from + count);
  };
  keep(record->expert_in, in, rows * c.width);
  keep(record->expert_out, out, rows * c.width);
  keep(record->stream, streams_.x(), rows * c.streams * c.width);
  keep(record->pre, streams_.pre(), rows * c.streams);
}

void v41_graph::attention(uint32_t layer, layer_record* record) {
  const v41_config& c = ops_.context.config;
  const layer_weights& w = ops_.context.weights.layers[layer];
  float* all_in = room(in_, size_t{current_->rows} * c.width);
  streams_.read(w.attention_norm, all_in);
  const graph_pass& all = *current_;
  const float* in = all_in;
  if (replays_ || layer == c.decoder_start()) trim(layer);
  if (current_ != &all) {
    float* kept = room(kept_in_, size_t{current_->rows} * c.width);
    for (size_t r = 0; r < current_->rows; ++r)
      std::copy_n(all_in + size_t{kept_rows_[r]} * c.width, c.width, kept + r * c.width);
    in = kept;
  }
  const size_t rows = current_->rows;
  float* out = room(out_, rows * c.width);
  const bool late = ops_.context.replay == replay_variant::late || layer != c.decoder_start();
  attention_.run(layer, {all, late ? all : *current_, *current_, all_in, late ? all_in : in, in},
                 streams_.mix_product(w.attention_mix), out, record);
  if (rows == 0) return;
  streams_.write(w.attention_mix, out);
  if (record == nullptr) return;
  record->attention_in.insert(record->attention_in.end(), in, in + rows * c.width);
  record->attention_out.insert(record->attention_out.end(), out, out + rows * c.width);
}

// First position of a segment that has a row behind this layer. Decoder replay drops rows at the
// decoder's first layer, an exact restore drops those outside its cone.
uint32_t v41_graph::needed_from(const graph_segment& s, uint32_t layer) const {
  const v41_config& c = ops_.context.config;
  const uint32_t kept = layer < c.decoder_start() ? 0 : s.kept_from;
  // Candidates are kept by row of the pass.
  const bool fixed = c.candidate_source >= 0 && int64_t{layer} > c.candidate_source;
  if (fixed || s.start >= s.target->cone.end) return kept;
  return std::max(kept, s.target->cone.first_key(layer + 1));
}

// From here on only the rows that are needed behind this layer.
void v41_graph::trim(uint32_t layer) {
  const graph_pass& all = *current_;
  if (std::ranges::all_of(all.segments,
                          [&](const graph_segment& s) { return needed_from(s, layer) <= s.start; }))
    return;
  graph_pass& kept = current_ == &kept_[0] ? kept_[1] : kept_[0];
  kept.segments.clear();
  kept.image.clear();
  kept_rows_.clear();
  for (const graph_segment& s : all.segments) {
    const uint32_t from = std::max(needed_from(s, layer), s.start);
    const uint32_t dropped = std::min(from - s.start, s.rows());
    if (dropped == s.rows()) continue;
    graph_segment rest = s;
    rest.tokens = s.tokens.subspan(dropped);
    if (!s.instead.empty()) rest.instead = s.instead.subspan(dropped);
    rest.start += dropped;
    rest.first_row = static_cast<uint32_t>(kept_rows_.size());
    kept.segments.push_back(rest);
    for (uint32_t i = dropped; i < s.rows(); ++i) kept_rows_.push_back(s.first_row + i);
  }
  if (!all.image.empty())
    for (const uint32_t row : kept_rows_) kept.image.push_back(all.image[row]);
  fill(kept);
  follow(kept_rows_);
  current_ = &kept;
}

// What is held by row moves along; a row only moves forward.
void v41_graph::follow(std::span<const uint32_t> kept) {
  streams_.keep(kept);
  attention_.keep(kept);
  // Taps of target layers up to here were taken of all rows.
  if (!taps_.empty()) {
    const v41_config& c = ops_.context.config;
    const size_t all = c.drafter.target_layers.size() * c.width;
    for (size_t r = 0; r < kept.size(); ++r)
      if (kept[r] != r) std::copy_n(taps_.data() + kept[r] * all, all, taps_.data() + r * all);
  }
  if (current_ == &pass_) {
    kept_source_.assign(kept.begin(), kept.end());
    return;
  }
  for (size_t r = 0; r < kept.size(); ++r) kept_source_[r] = kept_source_[kept[r]];
  kept_source_.resize(kept.size());
}

// The sequences now stand behind the rows of this pass.
void v41_graph::commit() {
  for (const graph_segment& s : pass_.segments) {
    s.target->computed = s.end();
    if (engram_ == nullptr) continue;
    auto& back = s.target->look_back;
    const size_t fresh = std::min<size_t>(s.rows(), back.size());
    std::copy_backward(back.begin(), back.end() - static_cast<std::ptrdiff_t>(fresh), back.end());
    for (size_t k = 0; k < fresh; ++k) back[k] = compressed(s, s.tokens.size() - 1 - k);
  }
}

void v41_graph::logits(std::span<const uint32_t> rows, float* out) {
  const v41_config& c = ops_.context.config;
  const auto count = static_cast<uint32_t>(rows.size());
  float* hidden = room(final_, size_t{count} * c.width);
  streams_.collapse(rows, hidden);
  ops_.norm(hidden, ops_.context.weights.norm, count);
  ops_.linear(graph_ops::exact_product(out, hidden, ops_.context.weights.head, count));
}

}  // namespace deepinfer::model
