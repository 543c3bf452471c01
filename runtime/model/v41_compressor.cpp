#include "runtime/model/v41_compressor.hpp"

#include "proto/types/check.hpp"

#include <algorithm>
#include <cstring>

namespace deepinfer::model {

v41_compressor::v41_compressor(const graph_context& context)
    : ops_(context),
      frequency_(rope_frequencies(
          context.config, context.config.compressed_rope_base, context.config.yarn)) {}

uint32_t v41_compressor::products(const source_weights& w,
                                  const graph_pass& pass,
                                  const float* x,
                                  kernels::linear_args* items) {
  const size_t count = size_t{pass.rows} * ops_.context.config.head_width;
  float* value = room(value_, count);
  if (w.gate.rows == 0) {
    items[0] = ops_.product(value, {x, x, pass.rows}, w.value);
    return 1;
  }
  // Pooling weighs the products in fp32, before any rounding.
  items[0] = graph_ops::exact_product(value, x, w.value, pass.rows);
  items[1] = graph_ops::exact_product(room(gate_, count), x, w.gate, pass.rows);
  return 2;
}

void v41_compressor::publish(uint32_t layer, const graph_pass& pass) {
  const v41_config& c = ops_.context.config;
  const uint32_t source = c.kv_source_number(layer), ratio = c.ratios[layer];
  groups_.clear();
  position_.clear();
  for (const graph_segment& segment : pass.segments)
    groups_.push_back(take_groups(segment, segment.target->sources[source]));
  const auto groups = static_cast<uint32_t>(position_.size());
  if (groups == 0) return;
  pool(groups, ratio);
  make_entries(*ops_.context.weights.layers[layer].source, groups);
  size_t at = 0;
  for (size_t s = 0; s < pass.segments.size(); ++s) {
    kv_source_state& state = pass.segments[s].target->sources[source];
    for (uint32_t g = 0; g < groups_[s]; ++g, ++at)
      for (const auto& [rows, from] : {std::pair(&state.entries, &packed_entries_),
                                       std::pair(&state.index_keys, &packed_index_keys_)})
        std::memcpy(rows->add(), from->data() + at * rows->row_bytes(), rows->row_bytes());
  }
}

// Appends the (value, gate) rows of the groups that this segment completes to `group_value_` and
// `group_gate_` and their positions to `position_`; keeps the rows that later groups may need.
uint32_t v41_compressor::take_groups(const graph_segment& segment, kv_source_state& state) {
  const size_t width = ops_.context.config.head_width, ratio = state.ratio;
  const auto held = static_cast<uint32_t>(state.pending.size() / (2 * width));
  const uint32_t first = state.entries.size() * state.ratio;
  DEEPINFER_CHECK(first + held >= segment.start);
  const uint32_t groups = segment.end() > first ? (segment.end() - first) / state.ratio : 0;
  const size_t done = position_.size() * ratio * width;
  float* values = room(group_value_, done + groups * ratio * width) + done;
  float* gates = ratio == 1 ? nullptr : room(group_gate_, done + groups * ratio * width) + done;
  for (uint32_t i = 0; i < groups * state.ratio; ++i) {
    const uint32_t p = first + i;
    const bool is_new = p >= segment.start;
    const float* value =
        is_new ? value_.data() + (segment.first_row + size_t{p} - segment.start) * width
               : state.pending.data() + (size_t{p} + held - segment.start) * 2 * width;
    std::memcpy(values + i * width, value, width * sizeof(float));
    if (gates == nullptr) continue;
    const float* gate = is_new
                            ? gate_.data() + (segment.first_row + size_t{p} - segment.start) * width
                            : value + width;
    std::memcpy(gates + i * width, gate, width * sizeof(float));
  }
  for (uint32_t g = 0; g < groups; ++g) position_.push_back(first + g * state.ratio);
  if (ratio == 1) return groups;
  for (uint32_t i = 0; i < segment.rows(); ++i)
    for (const std::vector<float>* from : {&value_, &gate_}) {
      const float* row = from->data() + (segment.first_row + size_t{i}) * width;
      state.pending.insert(state.pending.end(), row, row + width);
    }
  const size_t most = (ratio - 1 + ring_slack) * 2 * width;
  if (state.pending.size() > most)
    state.pending.erase(state.pending.begin(),
                        state.pending.end() - static_cast<std::ptrdiff_t>(most));
  return groups;
}

// `latent_` = one row per group, before its norm.
void v41_compressor::pool(uint32_t groups, uint32_t ratio) {
  const uint32_t width = ops_.context.config.head_width;
  float* latent = room(latent_, size_t{groups} * width);
  if (ratio == 1) {
    std::memcpy(latent, group_value_.data(), size_t{groups} * width * sizeof(float));
    return;
  }
  ops_.context.ops.pool_groups(ops_.queue, {latent, group_value_.data(), group_gate_.data(), groups,
                                            ratio, width, ops_.bf16()});
}

void v41_compressor::make_entries(const source_weights& w, uint32_t groups) {
  const v41_config& c = ops_.context.config;
  const state_formats formats = formats_of(ops_.context.level);
  ops_.angles(angles_, position_, frequency_);
  float* latent = latent_.data();
  ops_.norm(latent, w.norm, groups);
  // Index keys are made from the latent before its rotation.
  float* key = room(index_key_, size_t{groups} * c.index_width);
  ops_.linear(ops_.product(key, {latent, latent, groups}, w.index_key));
  ops_.norm(key, w.index_key_norm, groups);
  ops_.rope(key, angles_, groups, 1, c.index_width);
  ops_.rope(latent, angles_, groups, 1, c.head_width);
  const auto pack = [&](std::vector<uint8_t>& out, const float* rows, uint32_t width,
                        kernels::row_format format) {
    uint8_t* packed = room(out, groups * kernels::packed_row_bytes(format, width));
    ops_.context.ops.pack_rows(ops_.queue, {packed, rows, groups, width, format});
  };
  pack(packed_index_keys_, key, c.index_width, formats.index_key);
  pack(packed_entries_, latent, c.head_width, formats.entry);
}

}  // namespace deepinfer::model
