#pragma once

#include "runtime/model/graph_pass.hpp"
#include "runtime/model/v41_selection.hpp"

#include <vector>

namespace deepinfer::model {

/// The attention sublayer: sliding window, compressed entries, sink, grouped output projection.
class v41_attention {
public:
  explicit v41_attention(const graph_context& context);

  /// y = attention(x), both [rows][width]. Writes the rows' window keys and, in a KV source, the
  /// entries they complete into their sequences.
  void run(uint32_t layer, const graph_pass& pass, const float* x, float* y, layer_record* record);

private:
  void queries(uint32_t layer, const graph_pass& pass, const float* x);
  void window_keys(uint32_t layer, const graph_pass& pass, const float* x);
  void publish(uint32_t layer, const graph_pass& pass, const float* x);
  void publish_segment(uint32_t layer, const graph_segment& segment);
  uint32_t pool(uint32_t layer, const graph_segment& segment, kv_source_state& state);
  void attend(uint32_t layer, const graph_segment& segment);
  void output(uint32_t layer, const graph_pass& pass, float* y);
  void record_chosen(const graph_pass& pass, layer_record& record) const;

  graph_ops ops_;
  v41_selection selection_;
  std::vector<float> compressed_frequency_;
  std::vector<float> query_rank_, query_, key_, heads_out_, low_;
  std::vector<float> value_, gate_, group_value_, group_gate_, latent_, index_key_;
  std::vector<uint32_t> entry_position_;
  rope_angles entry_angles_;
  std::vector<float> window_, scratch_;
  std::vector<uint32_t> window_first_, window_count_;
};

}  // namespace deepinfer::model
