#pragma once

#include "runtime/model/graph_pass.hpp"

#include <vector>

namespace deepinfer::model {

/// The feed-forward sublayer: router, chosen experts, shared expert.
class v41_experts {
public:
  explicit v41_experts(const graph_context& context) : ops_(context) {}

  /// y = experts(x), both [rows][width].
  void run(uint32_t layer, uint32_t rows, const float* x, float* y, layer_record* record);

private:
  void route(const layer_weights& w, uint32_t rows, const float* x);
  void group_by_expert(uint32_t rows);
  void expert(
      const expert_weights& w, const float* in, const float* row_weight, uint32_t rows, float* out);

  graph_ops ops_;
  std::vector<float> logits_, weight_, gate_, up_, grouped_in_, grouped_weight_, parts_, shared_;
  std::vector<int32_t> chosen_;       ///< [rows][experts per token]
  std::vector<uint32_t> first_;       ///< [experts + 1]: an expert's rows in the grouped order
  std::vector<uint32_t> source_row_;  ///< grouped order -> row
  std::vector<uint32_t> place_;       ///< [rows][experts per token] -> grouped order
};

}  // namespace deepinfer::model
