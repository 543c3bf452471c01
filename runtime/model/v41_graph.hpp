#pragma once

#include "runtime/model/engram_hash.hpp"
#include "runtime/model/graph_pass.hpp"
#include "runtime/model/v41_attention.hpp"
#include "runtime/model/v41_experts.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace deepinfer::model {

/// The forward pass of the backbone over the rows of one pass. Every row's result depends on its
/// own sequence alone, bit for bit.
class v41_graph {
public:
  /// `engram` is null when the configuration has no Engram layers.
  v41_graph(const graph_context& context, const engram_hash* engram);

  /// Runs the segments (each sequence at most once) and advances their sequences. `records` is
  /// empty or has one entry per layer.
  void run(std::span<const graph_segment> segments, std::span<layer_record> records);

  /// Logits of some rows of the last `run`, [rows.size()][vocabulary].
  void logits(std::span<const uint32_t> rows, float* out);

private:
  void prepare(std::span<const graph_segment> segments);
  void engram(uint32_t layer);
  void block(uint32_t layer, layer_record* record);
  void mix(const hyper_weights& w, float* pre, float* post, float* comb);
  void collapse(const float* pre, const std::vector<float>& gain, float* out);
  void expand(const float* y, const float* post, const float* comb);
  void commit();

  graph_ops ops_;
  const engram_hash* engram_;
  v41_attention attention_;
  v41_experts experts_;
  std::vector<float> plain_frequency_, compressed_frequency_;
  graph_pass pass_;
  std::vector<int32_t> ids_;
  std::vector<int64_t> recent_;  ///< [rows][look-back + 1] compressed ids
  std::vector<int64_t> table_rows_;
  std::vector<float> table_values_, key_value_;
  std::vector<float> x_, pre_, next_pre_, post_, comb_, in_, out_, final_;
};

}  // namespace deepinfer::model
