#include "runtime/model/v41_attention.hpp"

#include "proto/types/check.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace deepinfer::model {

using kernels::row_format;

v41_attention::v41_attention(const graph_context& context)
    : ops_(context), selection_(context), compressor_(context) {}

void v41_attention::run(uint32_t layer,
                        const attention_rows& rows,
                        const kernels::linear_args& beside,
                        float* y,
                        layer_record* record) {
  const layer_weights& w = ops_.context.weights.layers[layer];
  const uint32_t ratio = ops_.context.config.ratios[layer];
  products(w, rows, beside);
  if (w.source) compressor_.publish(layer, rows.publishing);
  if (rows.keyed.rows != 0) finish_keys(w, rows.keyed, ratio);
  fill_windows(layer, rows);
  if (rows.asking.rows == 0) return;
  if (w.chooser) selection_.prepare(layer, rows.asking);
  finish_queries(w, rows.asking, ratio);
  if (w.chooser) {
    selection_.choose(layer, rows.asking);
    if (record != nullptr) record_chosen(rows.asking, *record);
  }
  if (ratio != 0) attach_chosen(layer, rows.asking);
  attend(w, rows.asking);
  output(w, rows.asking, ratio, y);
}

// Everything that multiplies the sublayer's input, in one hand-over.
void v41_attention::products(const layer_weights& w,
                             const attention_rows& rows,
                             const kernels::linear_args& beside) {
  const v41_config& c = ops_.context.config;
  const activation asking = ops_.prepare(rows.asking_in, rows.asking.rows, c.width, quantised_);
  const activation keyed =
      rows.keyed_in == rows.asking_in
          ? asking
          : ops_.prepare(rows.keyed_in, rows.keyed.rows, c.width, quantised_keys_);
  float* rank = room(query_rank_, size_t{rows.asking.rows} * c.query_rank);
  float* key = room(key_, size_t{rows.keyed.rows} * c.head_width);
  kernels::linear_args items[6];
  uint32_t count = 0;
  if (asking.rows != 0) {
    items[count++] = beside;
    items[count++] = ops_.product(rank, asking, w.attention.query_down);
  }
  if (keyed.rows != 0) items[count++] = ops_.product(key, keyed, w.attention.key_value);
  if (w.source)
    count += compressor_.products(*w.source, rows.publishing, rows.publishing_in, items + count);
  if (w.chooser && asking.rows != 0)
    items[count++] =
        ops_.product(selection_.weights(rows.asking.rows), asking, w.chooser->head_weight);
  ops_.linear(std::span(items, count));
}

void v41_attention::finish_queries(const layer_weights& w, const graph_pass& pass, uint32_t ratio) {
  const v41_config& c = ops_.context.config;
  ops_.norm(query_rank_.data(), w.attention.query_norm, pass.rows);
  const activation rank =
      ops_.prepare(query_rank_.data(), pass.rows, c.query_rank, quantised_rank_);
  float* query = room(query_, size_t{pass.rows} * c.heads * c.head_width);
  kernels::linear_args items[2] = {ops_.product(query, rank, w.attention.query_up), {}};
  const bool scores = w.chooser && selection_.needs_scores();
  if (scores) items[1] = ops_.product(selection_.query(pass.rows), rank, w.chooser->query);
  ops_.linear(std::span(items, scores ? 2 : 1));
  ops_.rope(query, pass.angles(ratio), pass.rows, c.heads, c.head_width);
}

// Leaves the rows in their stored form in `packed_keys_`.
void v41_attention::finish_keys(const layer_weights& w, const graph_pass& pass, uint32_t ratio) {
  const v41_config& c = ops_.context.config;
  ops_.norm(key_.data(), w.attention.key_value_norm, pass.rows);
  ops_.rope(key_.data(), pass.angles(ratio), pass.rows, 1, c.head_width);
  const row_format format = formats_of(ops_.context.level).window;
  const size_t bytes = pass.rows * kernels::packed_row_bytes(format, c.head_width);
  ops_.context.ops.pack_rows(
      ops_.queue, {room(packed_keys_, bytes), key_.data(), pass.rows, c.head_width, format});
}

void v41_attention::fill_windows(uint32_t layer, const attention_rows& rows) {
  const v41_config& c = ops_.context.config;
  const bool trims = layer > c.decoder_start() ||
                     (layer == c.decoder_start() && ops_.context.replay == replay_variant::ced);
  windows_.clear();
  size_t total = 0;
  for (const graph_segment& s : rows.keyed.segments) {
    const uint32_t held = s.target->rings[layer].held_from(s.start, c.window - 1);
    const uint32_t oldest = std::min(s.start, trims ? std::max(held, s.kept_from) : held);
    windows_.push_back({&s.target->rings[layer], s.start, s.rows(), s.first_row, oldest, total});
    total += s.end() - oldest;
  }
  load_windows(total);
  for (const window_span& span : windows_)
    for (uint32_t i = span.rows - std::min(span.rows, span.ring->slots()); i < span.rows; ++i)
      span.ring->write(span.start + i,
                       packed_keys_.data() + (span.first_row + size_t{i}) * span.ring->row_bytes());
  calls_.clear();
  uint32_t* first = room(window_first_, rows.asking.rows);
  uint32_t* count = room(window_count_, rows.asking.rows);
  size_t at = 0;
  for (const graph_segment& s : rows.asking.segments) {
    while (rows.keyed.segments[at].target != s.target) ++at;
    const window_span& span = windows_[at];
    for (uint32_t i = 0; i < s.rows(); ++i) {
      const uint32_t position = s.position(i);
      count[s.first_row + i] = std::min(position + 1 - span.oldest, c.window);
      first[s.first_row + i] = position + 1 - span.oldest - count[s.first_row + i];
    }
    add_call(s, span.offset);
  }
}

// The held rows out of the ring and the pass's own ones behind them, as fp32. Before the ring is
// written, since a long pass overwrites what its first rows still need.
void v41_attention::load_windows(size_t total_rows) {
  const uint32_t width = ops_.context.config.head_width;
  const row_format format = formats_of(ops_.context.level).window;
  float* memory = room(window_, total_rows * width);
  const auto unpack = [&](float* to, const uint8_t* from, uint32_t count) {
    if (count != 0) ops_.context.ops.unpack_rows(ops_.queue, {to, from, count, width, format});
  };
  for (const window_span& span : windows_) {
    float* out = memory + span.offset * width;
    for (uint32_t p = span.oldest; p < span.start;) {
      const uint32_t run = std::min(span.start - p, span.ring->slots() - p % span.ring->slots());
      const uint8_t* row = span.ring->at(p);
      DEEPINFER_CHECK(row != nullptr);
      unpack(out + size_t{p - span.oldest} * width, row, run);
      p += run;
    }
    unpack(out + size_t{span.start - span.oldest} * width,
           packed_keys_.data() + span.first_row * span.ring->row_bytes(), span.rows);
  }
}

void v41_attention::add_call(const graph_segment& s, size_t window_offset) {
  const v41_config& c = ops_.context.config;
  kernels::attention_args args{};
  args.window = window_.data() + window_offset * c.head_width;
  args.window_first = window_first_.data() + s.first_row;
  args.window_count = window_count_.data() + s.first_row;
  args.chosen.page_rows = 1;
  args.rows = s.rows();
  args.heads = c.heads;
  args.width = c.head_width;
  args.scale = 1 / std::sqrt(static_cast<float>(c.head_width));
  args.round = ops_.bf16();
  calls_.push_back(args);
}

void v41_attention::attach_chosen(uint32_t layer, const graph_pass& asking) {
  const v41_config& c = ops_.context.config;
  const uint32_t source = c.kv_source_number(c.kv_source_of(layer));
  for (size_t i = 0; i < calls_.size(); ++i) {
    const graph_segment& s = asking.segments[i];
    calls_[i].chosen = s.target->sources[source].entries.view();
    calls_[i].selected = selection_.chosen(s.first_row);
    calls_[i].selected_count = selection_.count(s.first_row);
    calls_[i].selected_stride = c.index_top;
  }
}

void v41_attention::attend(const layer_weights& w, const graph_pass& asking) {
  const v41_config& c = ops_.context.config;
  float* out = room(heads_out_, size_t{asking.rows} * c.heads * c.head_width);
  for (size_t i = 0; i < calls_.size(); ++i) {
    const size_t row = size_t{asking.segments[i].first_row} * c.heads * c.head_width;
    calls_[i].out = out + row;
    calls_[i].query = query_.data() + row;
    calls_[i].sink = w.attention.sink.data();
  }
  ops_.context.ops.attention(ops_.queue, {calls_.data(), static_cast<uint32_t>(calls_.size())});
}

void v41_attention::output(const layer_weights& w,
                           const graph_pass& pass,
                           uint32_t ratio,
                           float* y) {
  const v41_config& c = ops_.context.config;
  const uint32_t all_heads = c.heads * c.head_width, group = all_heads / c.output_groups;
  const uint32_t low_width = c.output_groups * c.output_rank;
  ops_.rope(heads_out_.data(), pass.angles(ratio), pass.rows, c.heads, c.head_width,
            kernels::turn::backward);
  float* low = room(low_, size_t{pass.rows} * low_width);
  groups_of_output_.clear();
  // The release uses wo_a as a plain bf16 weight: its input is not quantised.
  for (uint32_t g = 0; g < c.output_groups; ++g)
    groups_of_output_.push_back(
        {low + g * c.output_rank, heads_out_.data() + size_t{g} * group,
         row_slice(w.attention.output_down, size_t{g} * c.output_rank, c.output_rank), nullptr,
         pass.rows, all_heads, low_width, ops_.bf16()});
  ops_.linear(groups_of_output_);
  const activation narrow = ops_.prepare(low, pass.rows, low_width, quantised_low_);
  ops_.linear(ops_.product(y, narrow, w.attention.output_up));
}

void v41_attention::record_chosen(const graph_pass& pass, layer_record& record) const {
  const uint32_t top = ops_.context.config.index_top;
  for (uint32_t r = 0; r < pass.rows; ++r) {
    const uint32_t count = *selection_.count(r);
    for (uint32_t i = 0; i < top; ++i)
      record.chosen.push_back(i < count ? selection_.chosen(r)[i] : -1);
  }
}

void v41_attention::run_draft(const layer_weights& w,
                              uint32_t stage,
                              const graph_pass& pass,
                              const float* x,
                              const kernels::linear_args& beside,
                              float* y) {
  const v41_config& c = ops_.context.config;
  products(w, {pass, pass, pass, x, x, x}, beside);
  finish_keys(w, pass, 0);
  finish_queries(w, pass, 0);
  windows_.clear();
  size_t total = 0;
  for (const graph_segment& s : pass.segments) {
    window_ring& ring = s.target->draft_rings[stage];
    const uint32_t oldest = ring.held_from(s.start, c.window);
    windows_.push_back({&ring, s.start, s.rows(), s.first_row, oldest, total});
    total += s.end() - oldest;
  }
  load_windows(total);
  calls_.clear();
  uint32_t* first = room(window_first_, pass.rows);
  uint32_t* count = room(window_count_, pass.rows);
  for (size_t i = 0; i < windows_.size(); ++i) {
    const graph_segment& s = pass.segments[i];
    std::fill_n(first + s.first_row, s.rows(), 0u);
    std::fill_n(count + s.first_row, s.rows(), s.end() - windows_[i].oldest);
    add_call(s, windows_[i].offset);
  }
  attend(w, pass);
  output(w, pass, 0, y);
}

void v41_attention::commit_draft(const layer_weights& w,
                                 uint32_t stage,
                                 const graph_pass& pass,
                                 const activation& x) {
  const uint32_t width = ops_.context.config.head_width;
  ops_.linear(ops_.product(room(key_, size_t{pass.rows} * width), x, w.attention.key_value));
  finish_keys(w, pass, 0);
  for (const graph_segment& s : pass.segments) {
    window_ring& ring = s.target->draft_rings[stage];
    for (uint32_t i = s.rows() - std::min(s.rows(), ring.slots()); i < s.rows(); ++i)
      ring.write(s.position(i), packed_keys_.data() + (s.first_row + size_t{i}) * ring.row_bytes());
  }
}

}  // namespace deepinfer::model
