#pragma once

#include "runtime/model/engram_hash.hpp"
#include "runtime/model/graph_pass.hpp"
#include "runtime/model/v41_attention.hpp"
#include "runtime/model/v41_experts.hpp"
#include "runtime/model/v41_streams.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace deepinfer::model {

/// What a run keeps besides the sequences' state.
struct run_options {
  std::span<layer_record> records = {};  ///< empty, or one per layer
  std::span<const layer_record> teacher =
      {};                             ///< empty, or one per layer: every layer but the first
                                      ///< starts from the streams recorded behind the last one
  uint32_t teacher_row = 0;           ///< of the pass's first row
  bool taps = false;                  ///< keep what the drafter needs
  swap_patience* patience = nullptr;  ///< for blocks, of the whole step; null: that of one run
};

/// The forward pass of the backbone over the rows of one pass. Every row's result depends on its
/// own sequence alone, bit for bit.
class v41_graph {
public:
  /// `engram` is null when the configuration has no Engram layers.
  v41_graph(const graph_context& context, const engram_hash* engram);

  /// Runs the segments (each sequence at most once) and advances their sequences.
  void run(std::span<const graph_segment> segments, const run_options& options);

  /// The rows of the last `run` that reached the end: segments in order, those without kept rows
  /// missing.
  [[nodiscard]] const graph_pass& finished() const { return *current_; }

  /// Logits of some of these rows, [rows.size()][vocabulary].
  void logits(std::span<const uint32_t> rows, float* out);

  /// [finished rows][target layers * width], after a run with taps.
  [[nodiscard]] const std::vector<float>& taps() const { return taps_; }

private:
  void prepare(std::span<const graph_segment> segments);
  void look_up(std::span<const graph_segment> segments);
  void fill(graph_pass& pass);
  void engram(uint32_t layer);
  void await_entries(uint32_t layer, swap_patience& patience);
  void tap(uint32_t number);
  void block(uint32_t layer, layer_record* record);
  void attention(uint32_t layer, layer_record* record);
  [[nodiscard]] uint32_t needed_from(const graph_segment& s, uint32_t layer) const;
  void trim(uint32_t layer);
  void follow(std::span<const uint32_t> kept);
  void commit();
  [[nodiscard]] int64_t compressed(const graph_segment& s, size_t i) const;

  graph_ops ops_;
  const engram_hash* engram_;
  v41_attention attention_;
  v41_experts experts_;
  v41_streams streams_;
  std::vector<float> plain_frequency_, compressed_frequency_;
  graph_pass pass_;     ///< all rows
  graph_pass kept_[2];  ///< those that are left, once trimmed; one is made out of the other
  const graph_pass* current_ = &pass_;
  std::vector<uint32_t> kept_rows_;    ///< row of `current_` -> row of the pass before it
  std::vector<uint32_t> kept_source_;  ///< row of `current_`, once trimmed -> row of `pass_`
  bool replays_ = false;               ///< a sequence is behind the end of its cone
  std::vector<int32_t> ids_;
  std::vector<const float*> instead_;
  std::vector<int64_t> recent_;                   ///< [rows][look-back + 1] compressed ids
  std::vector<std::vector<int64_t>> table_rows_;  ///< per Engram layer, [rows][columns]
  std::vector<int64_t> kept_table_rows_;
  std::vector<float> table_values_, quantised_values_, key_value_;
  std::vector<float> in_, kept_in_, out_, final_, taps_, tap_;
};

}  // namespace deepinfer::model
