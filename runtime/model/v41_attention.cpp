#include "runtime/model/v41_attention.hpp"

#include "proto/types/check.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace deepinfer::model {

using kernels::row_format;

v41_attention::v41_attention(const graph_context& context)
    : ops_(context),
      selection_(context),
      compressed_frequency_(rope_frequencies(
          context.config, context.config.compressed_rope_base, context.config.yarn)) {}

void v41_attention::run(
    uint32_t layer, const graph_pass& pass, const float* x, float* y, layer_record* record) {
  const layer_weights& w = ops_.context.weights.layers[layer];
  queries(layer, pass, x);
  window_keys(layer, pass, x);
  if (w.source) publish(layer, pass, x);
  if (w.chooser) {
    selection_.choose(layer, pass, x, query_rank_.data());
    if (record != nullptr) record_chosen(pass, *record);
  }
  room(heads_out_, size_t{pass.rows} * ops_.context.config.heads * ops_.context.config.head_width);
  for (const graph_segment& segment : pass.segments) attend(layer, segment);
  output(layer, pass, y);
}

void v41_attention::queries(uint32_t layer, const graph_pass& pass, const float* x) {
  const v41_config& c = ops_.context.config;
  const attention_weights& w = ops_.context.weights.layers[layer].attention;
  float* rank = room(query_rank_, size_t{pass.rows} * c.query_rank);
  ops_.linear(rank, x, w.query_down, pass.rows);
  ops_.norm(rank, w.query_norm, pass.rows);
  float* query = room(query_, size_t{pass.rows} * c.heads * c.head_width);
  ops_.linear(query, rank, w.query_up, pass.rows);
  ops_.rope(query, pass.angles(c.ratios[layer]), pass.rows, c.heads, c.head_width);
}

void v41_attention::window_keys(uint32_t layer, const graph_pass& pass, const float* x) {
  const v41_config& c = ops_.context.config;
  const attention_weights& w = ops_.context.weights.layers[layer].attention;
  float* key = room(key_, size_t{pass.rows} * c.head_width);
  ops_.linear(key, x, w.key_value, pass.rows);
  ops_.norm(key, w.key_value_norm, pass.rows);
  ops_.rope(key, pass.angles(c.ratios[layer]), pass.rows, 1, c.head_width);
  ops_.quantise(key, pass.rows, c.head_width, row_format::fp8_32);
}

void v41_attention::publish(uint32_t layer, const graph_pass& pass, const float* x) {
  const v41_config& c = ops_.context.config;
  const source_weights& w = *ops_.context.weights.layers[layer].source;
  ops_.linear(room(value_, size_t{pass.rows} * c.head_width), x, w.value, pass.rows);
  if (c.ratios[layer] > 1)
    ops_.linear(room(gate_, size_t{pass.rows} * c.head_width), x, w.gate, pass.rows);
  for (const graph_segment& segment : pass.segments) publish_segment(layer, segment);
}

// Leaves the latents of the groups this segment completes in `latent_`, before their norm, and the
// rows of the group still open in `pending`. Returns the number of groups.
uint32_t v41_attention::pool(uint32_t layer, const graph_segment& segment, kv_source_state& state) {
  const uint32_t width = ops_.context.config.head_width, ratio = ops_.context.config.ratios[layer];
  const size_t row_bytes = width * sizeof(float);
  const float* value = value_.data() + size_t{segment.first_row} * width;
  const float* gate = gate_.data() + size_t{segment.first_row} * width;
  if (ratio == 1) {
    std::memcpy(room(latent_, size_t{segment.rows()} * width), value, segment.rows() * row_bytes);
    return segment.rows();
  }
  const auto held = static_cast<uint32_t>(state.pending.size() / (2 * width));
  DEEPINFER_CHECK(held == segment.target->computed % ratio);
  const uint32_t total = held + segment.rows(), groups = total / ratio;
  float* all_values = room(group_value_, size_t{total} * width);
  float* all_gates = room(group_gate_, size_t{total} * width);
  for (uint32_t i = 0; i < held; ++i) {
    std::memcpy(all_values + size_t{i} * width, state.pending.data() + size_t{2 * i} * width,
                row_bytes);
    std::memcpy(all_gates + size_t{i} * width, state.pending.data() + size_t{2 * i + 1} * width,
                row_bytes);
  }
  std::memcpy(all_values + size_t{held} * width, value, segment.rows() * row_bytes);
  std::memcpy(all_gates + size_t{held} * width, gate, segment.rows() * row_bytes);
  ops_.context.ops.pool_groups(ops_.queue, {room(latent_, size_t{groups} * width), all_values,
                                            all_gates, groups, ratio, width});
  state.pending.clear();
  for (uint32_t i = groups * ratio; i < total; ++i)
    for (const float* row : {all_values + size_t{i} * width, all_gates + size_t{i} * width})
      state.pending.insert(state.pending.end(), row, row + width);
  return groups;
}

void v41_attention::publish_segment(uint32_t layer, const graph_segment& segment) {
  const v41_config& c = ops_.context.config;
  const source_weights& w = *ops_.context.weights.layers[layer].source;
  kv_source_state& state = segment.target->sources[c.kv_source_number(layer)];
  const uint32_t groups = pool(layer, segment, state);
  if (groups == 0) return;
  const uint32_t pairs = c.rope_width / 2;
  // An entry stands at the position of its first token.
  uint32_t* position = room(entry_position_, groups);
  for (uint32_t g = 0; g < groups; ++g) position[g] = (state.entries.size() + g) * state.ratio;
  ops_.context.ops.rope_table(ops_.queue, {room(entry_angles_.cos, size_t{groups} * pairs),
                                           room(entry_angles_.sin, size_t{groups} * pairs),
                                           position, compressed_frequency_.data(), groups, pairs});
  float* latent = latent_.data();
  ops_.norm(latent, w.norm, groups);
  // Index keys are made from the latent before its rotation.
  float* key = room(index_key_, size_t{groups} * c.index_width);
  ops_.linear(key, latent, w.index_key, groups);
  ops_.norm(key, w.index_key_norm, groups);
  ops_.rope(key, entry_angles_, groups, 1, c.index_width);
  ops_.quantise(key, groups, c.index_width, row_format::fp4_32);
  ops_.rope(latent, entry_angles_, groups, 1, c.head_width);
  ops_.quantise(latent, groups, c.head_width, row_format::fp4_16);
  for (uint32_t g = 0; g < groups; ++g) {
    std::memcpy(state.entries.add(), latent + size_t{g} * c.head_width,
                c.head_width * sizeof(float));
    std::memcpy(state.index_keys.add(), key + size_t{g} * c.index_width,
                c.index_width * sizeof(float));
  }
}

// Keys of a row: the window up to its own position, oldest first, then its chosen entries.
void v41_attention::attend(uint32_t layer, const graph_segment& segment) {
  const v41_config& c = ops_.context.config;
  const uint32_t start = segment.target->computed, rows = segment.rows(), width = c.head_width;
  const uint32_t oldest = start - std::min(start, c.window - 1), held = start - oldest;
  window_ring& ring = segment.target->rings[layer];
  float* window = room(window_, size_t{held + rows} * width);
  for (uint32_t i = 0; i < held; ++i) {
    const float* row = ring.at(oldest + i);
    DEEPINFER_CHECK(row != nullptr);
    std::memcpy(window + size_t{i} * width, row, width * sizeof(float));
  }
  const float* own = key_.data() + size_t{segment.first_row} * width;
  std::memcpy(window + size_t{held} * width, own, size_t{rows} * width * sizeof(float));
  for (uint32_t i = rows - std::min(rows, ring.slots()); i < rows; ++i)
    ring.write(start + i, own + size_t{i} * width);
  uint32_t* first = room(window_first_, rows);
  uint32_t* count = room(window_count_, rows);
  for (uint32_t i = 0; i < rows; ++i) {
    count[i] = std::min(start + i + 1, c.window);
    first[i] = start + i + 1 - count[i] - oldest;
  }
  const bool sparse = c.ratios[layer] != 0;
  const uint32_t most_keys = c.window + (sparse ? c.index_top : 0);
  kernels::attention_args args{};
  args.out = heads_out_.data() + size_t{segment.first_row} * c.heads * width;
  args.query = query_.data() + size_t{segment.first_row} * c.heads * width;
  args.window = window;
  args.window_first = first;
  args.window_count = count;
  if (sparse) {
    args.chosen = segment.target->sources[c.kv_source_number(c.kv_source_of(layer))].entries.view();
    args.selected = selection_.chosen(segment.first_row);
    args.selected_count = selection_.count(segment.first_row);
  }
  args.sink = ops_.context.weights.layers[layer].attention.sink.data();
  args.scratch = room(scratch_, size_t{c.heads} * most_keys);
  args.rows = rows;
  args.heads = c.heads;
  args.width = width;
  args.selected_stride = c.index_top;
  args.scratch_stride = most_keys;
  args.scale = 1 / std::sqrt(static_cast<float>(width));
  ops_.context.ops.attention(ops_.queue, args);
}

void v41_attention::output(uint32_t layer, const graph_pass& pass, float* y) {
  const v41_config& c = ops_.context.config;
  const attention_weights& w = ops_.context.weights.layers[layer].attention;
  const uint32_t all_heads = c.heads * c.head_width, group = all_heads / c.output_groups;
  const uint32_t low_width = c.output_groups * c.output_rank;
  ops_.rope(heads_out_.data(), pass.angles(c.ratios[layer]), pass.rows, c.heads, c.head_width,
            kernels::turn::backward);
  float* low = room(low_, size_t{pass.rows} * low_width);
  for (uint32_t g = 0; g < c.output_groups; ++g)
    ops_.context.ops.linear(
        ops_.queue, {low + g * c.output_rank, heads_out_.data() + size_t{g} * group,
                     w.output_down.values.data() + size_t{g} * c.output_rank * group, pass.rows,
                     group, c.output_rank, all_heads, low_width});
  ops_.linear(y, low, w.output_up, pass.rows);
}

void v41_attention::record_chosen(const graph_pass& pass, layer_record& record) const {
  const uint32_t top = ops_.context.config.index_top;
  for (uint32_t r = 0; r < pass.rows; ++r) {
    const uint32_t count = *selection_.count(r);
    for (uint32_t i = 0; i < top; ++i)
      record.chosen.push_back(i < count ? selection_.chosen(r)[i] : -1);
  }
}

}  // namespace deepinfer::model
