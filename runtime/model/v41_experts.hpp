#pragma once

#include "runtime/model/graph_pass.hpp"

#include <vector>

namespace deepinfer::model {

/// The feed-forward sublayer: router, chosen experts, shared expert.
class v41_experts {
public:
  explicit v41_experts(const graph_context& context) : ops_(context) {}

  /// y = experts(x), both [rows of the pass][width]. `beside` is computed in the same hand-over as
  /// the router's product.
  void run(const layer_weights& w,
           const graph_pass& pass,
           const float* x,
           const kernels::linear_args& beside,
           float* y,
           layer_record* record);

private:
  void route(const layer_weights& w,
             const graph_pass& pass,
             const float* x,
             const kernels::linear_args& beside);
  void group_by_expert(const layer_weights& w, uint32_t rows);
  void compute(const layer_weights& w, uint32_t rows, const float* x);
  void narrow(const layer_weights& w, uint32_t rows);

  graph_ops ops_;
  std::vector<float> logits_, weight_, grouped_weight_;
  /// Rows of the experts in their grouped order, then those of the shared expert.
  std::vector<float> in_, quantised_, gate_, up_, quantised_hidden_, parts_;
  std::vector<int32_t> chosen_;       ///< [rows][experts per token]
  std::vector<uint32_t> first_;       ///< [experts + 1]: an expert's rows in the grouped order
  std::vector<uint32_t> source_row_;  ///< grouped order -> row
  std::vector<uint32_t> place_;       ///< [rows][experts per token] -> grouped order
  std::vector<uint32_t> next_;
  std::vector<kernels::linear_args> items_;
};

}  // namespace deepinfer::model
