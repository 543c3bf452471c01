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

void v41_experts::run(const layer_weights& w,
                      const graph_pass& pass,
                      const float* x,
                      const kernels::linear_args& beside,
                      float* y,
                      layer_record* record) {
  const uint32_t width = ops_.context.config.width, slots = w.experts_per_token;
  const uint32_t jobs = pass.rows * slots;
  route(w, pass, x, beside);
  group_by_expert(w, pass.rows);
  compute(w, pass.rows, x);
  ops_.context.ops.combine(
      ops_.queue, {y, parts_.data(), place_.data(), parts_.data() + size_t{jobs} * width, pass.rows,
                   slots, width, ops_.bf16()});
  if (record == nullptr) return;
  record->experts.insert(record->experts.end(), chosen_.begin(), chosen_.begin() + jobs);
  record->expert_weight.insert(record->expert_weight.end(), weight_.begin(),
                               weight_.begin() + jobs);
}

void v41_experts::route(const layer_weights& w,
                        const graph_pass& pass,
                        const float* x,
                        const kernels::linear_args& beside) {
  const v41_config& c = ops_.context.config;
  float* logits = room(logits_, size_t{pass.rows} * w.router.rows);
  const kernels::linear_args items[] = {beside,
                                        graph_ops::exact_product(logits, x, w.router, pass.rows)};
  ops_.linear(items);
  const size_t jobs = size_t{pass.rows} * w.experts_per_token;
  const bool images = !w.router_image_bias.empty();
  ops_.context.ops.route(
      ops_.queue,
      {room(chosen_, jobs), room(weight_, jobs), logits, w.router_bias.data(),
       images ? w.router_image_bias.data() : nullptr, images ? pass.is_image() : nullptr, pass.rows,
       w.router.rows, w.experts_per_token, score_of(c.gate), c.normalize_weights,
       static_cast<float>(c.gate_temperature), static_cast<float>(c.routed_scale)});
}

// Counting sort by expert, stable in the row: which rows share an expert's pass over its weights.
void v41_experts::group_by_expert(const layer_weights& w, uint32_t rows) {
  const uint32_t slots = w.experts_per_token, jobs = rows * slots;
  first_.assign(w.experts.size() + 1, 0);
  for (uint32_t i = 0; i < jobs; ++i) ++first_[chosen_[i] + 1];
  for (size_t e = 0; e < w.experts.size(); ++e) first_[e + 1] += first_[e];
  next_.assign(first_.begin(), first_.end() - 1);
  room(source_row_, jobs);
  room(grouped_weight_, jobs);
  room(place_, jobs);
  for (uint32_t i = 0; i < jobs; ++i) {
    const uint32_t at = next_[chosen_[i]]++;
    source_row_[at] = i / slots;
    grouped_weight_[at] = weight_[i];
    place_[i] = at;
  }
}

// All experts, the shared one last, in two hand-overs: up, then down.
void v41_experts::compute(const layer_weights& w, uint32_t rows, const float* x) {
  const v41_config& c = ops_.context.config;
  const uint32_t jobs = rows * w.experts_per_token, all = jobs + rows;
  const activation own = ops_.prepare(x, rows, c.width, quantised_);
  float* in = room(in_, size_t{jobs} * c.width);
  const float* source = w.experts[0].gate.scales == nullptr ? own.plain : own.quantised;
  ops_.context.ops.gather_rows(ops_.queue, {in, source, source_row_.data(), jobs, c.width});
  float* gate = room(gate_, size_t{all} * c.expert_width);
  float* up = room(up_, size_t{all} * c.expert_width);
  items_.clear();
  const auto widen = [&](const expert_weights& e, const activation& a, size_t first) {
    items_.push_back(ops_.product(gate + first * c.expert_width, a, e.gate));
    items_.push_back(ops_.product(up + first * c.expert_width, a, e.up));
  };
  for (size_t e = 0; e < w.experts.size(); ++e) {
    const uint32_t first = first_[e], count = first_[e + 1] - first;
    const float* rows_in = in + size_t{first} * c.width;
    if (count != 0) widen(w.experts[e], {rows_in, rows_in, count}, first);
  }
  widen(w.shared, own, jobs);
  ops_.linear(items_);
  const auto limit = static_cast<float>(c.swiglu_limit);
  ops_.context.ops.swiglu(ops_.queue, {gate, gate, up, grouped_weight_.data(), jobs, c.expert_width,
                                       limit, ops_.bf16()});
  const size_t shared = size_t{jobs} * c.expert_width;
  ops_.context.ops.swiglu(ops_.queue, {gate + shared, gate + shared, up + shared, nullptr, rows,
                                       c.expert_width, limit, ops_.bf16()});
  narrow(w, rows);
}

void v41_experts::narrow(const layer_weights& w, uint32_t rows) {
  const v41_config& c = ops_.context.config;
  const uint32_t jobs = rows * w.experts_per_token, all = jobs + rows;
  const activation hidden = ops_.prepare(gate_.data(), all, c.expert_width, quantised_hidden_);
  float* parts = room(parts_, size_t{all} * c.width);
  items_.clear();
  const auto add = [&](const expert_weights& e, size_t first, uint32_t count) {
    items_.push_back(ops_.product(
        parts + first * c.width,
        {hidden.plain + first * c.expert_width, hidden.quantised + first * c.expert_width, count},
        e.down));
  };
  for (size_t e = 0; e < w.experts.size(); ++e)
    if (first_[e + 1] != first_[e]) add(w.experts[e], first_[e], first_[e + 1] - first_[e]);
  add(w.shared, jobs, rows);
  ops_.linear(items_);
}

}  // namespace deepinfer::model
