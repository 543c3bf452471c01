#include "runtime/model/v41_experts.hpp"

#include <algorithm>

namespace deepinfer::model {
namespace {

kernels::gate_score score_of(gate_function gate) {
  switch (gate) {
    case gate_function::sigmoid:
      return kernels::gate_score::sigmoid;
    case gate_function::softmax:
      return kernels::gate_score::softmax;
    case gate_function::sqrt_softplus:
      break;
  }
  return kernels::gate_score::sqrt_softplus;
}

}  // namespace

void v41_experts::run(
    uint32_t layer, uint32_t rows, const float* x, float* y, layer_record* record) {
  const v41_config& c = ops_.context.config;
  const layer_weights& w = ops_.context.weights.layers[layer];
  const uint32_t slots = c.experts_per_token, jobs = rows * slots;
  route(w, rows, x);
  group_by_expert(rows);
  float* in = room(grouped_in_, size_t{jobs} * c.width);
  float* parts = room(parts_, size_t{jobs} * c.width);
  ops_.context.ops.gather_rows(ops_.queue, {in, x, source_row_.data(), jobs, c.width});
  for (uint32_t e = 0; e < c.experts; ++e) {
    const uint32_t first = first_[e], count = first_[e + 1] - first;
    if (count == 0) continue;
    expert(w.experts[e], in + size_t{first} * c.width, grouped_weight_.data() + first, count,
           parts + size_t{first} * c.width);
  }
  float* shared = room(shared_, size_t{rows} * c.width);
  expert(w.shared, x, nullptr, rows, shared);
  ops_.context.ops.combine(ops_.queue, {y, parts, place_.data(), shared, rows, slots, c.width});
  if (record == nullptr) return;
  record->experts.insert(record->experts.end(), chosen_.begin(), chosen_.begin() + jobs);
  record->expert_weight.insert(record->expert_weight.end(), weight_.begin(),
                               weight_.begin() + jobs);
}

void v41_experts::route(const layer_weights& w, uint32_t rows, const float* x) {
  const v41_config& c = ops_.context.config;
  float* logits = room(logits_, size_t{rows} * c.experts);
  ops_.linear(logits, x, w.router, rows);
  const size_t jobs = size_t{rows} * c.experts_per_token;
  ops_.context.ops.route(
      ops_.queue, {room(chosen_, jobs), room(weight_, jobs), logits, w.router_bias.data(), rows,
                   c.experts, c.experts_per_token, score_of(c.gate), c.normalize_weights,
                   static_cast<float>(c.gate_temperature), static_cast<float>(c.routed_scale)});
}

// Counting sort by expert, stable in the row: which rows share an expert's pass over its weights.
void v41_experts::group_by_expert(uint32_t rows) {
  const v41_config& c = ops_.context.config;
  const uint32_t slots = c.experts_per_token, jobs = rows * slots;
  first_.assign(c.experts + 1, 0);
  for (uint32_t i = 0; i < jobs; ++i) ++first_[chosen_[i] + 1];
  for (uint32_t e = 0; e < c.experts; ++e) first_[e + 1] += first_[e];
  std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
  room(source_row_, jobs);
  room(grouped_weight_, jobs);
  room(place_, jobs);
  for (uint32_t i = 0; i < jobs; ++i) {
    const uint32_t at = next[chosen_[i]]++;
    source_row_[at] = i / slots;
    grouped_weight_[at] = weight_[i];
    place_[i] = at;
  }
}

void v41_experts::expert(
    const expert_weights& w, const float* in, const float* row_weight, uint32_t rows, float* out) {
  const v41_config& c = ops_.context.config;
  float* gate = room(gate_, size_t{rows} * c.expert_width);
  float* up = room(up_, size_t{rows} * c.expert_width);
  ops_.linear(gate, in, w.gate, rows);
  ops_.linear(up, in, w.up, rows);
  ops_.context.ops.swiglu(ops_.queue, {gate, gate, up, row_weight, rows, c.expert_width,
                                       static_cast<float>(c.swiglu_limit)});
  ops_.linear(out, gate, w.down, rows);
}

}  // namespace deepinfer::model
