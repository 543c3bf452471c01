#pragma once

#include "runtime/model/graph_pass.hpp"

#include <cstdint>
#include <vector>

namespace deepinfer::model {

/// Which compressed entries each row attends: computed by the index sources, reused by the layers
/// behind them within the same pass, forgotten afterwards.
class v41_selection {
public:
  explicit v41_selection(const graph_context& context) : ops_(context) {}

  /// Runs index source `layer`: `x` is its attention input, `query_rank` the compressed query.
  void choose(uint32_t layer, const graph_pass& pass, const float* x, const float* query_rank);

  /// Of the latest index source; row `first_row + i` of the pass, [.][index_top] ascending.
  [[nodiscard]] const int32_t* chosen(uint32_t row) const {
    return chosen_.data() + size_t{row} * ops_.context.config.index_top;
  }
  [[nodiscard]] const uint32_t* count(uint32_t row) const { return count_.data() + row; }

private:
  /// Candidate blocks of one segment, kept from the candidate source on.
  struct candidates {
    std::vector<uint8_t> mask;  ///< [rows][blocks]
    uint32_t blocks = 0;
    bool everything = true;
  };

  void choose_all(const graph_segment& segment, uint32_t ratio);
  void score_and_choose(uint32_t layer, const graph_segment& segment, candidates& allowed);
  void query(uint32_t layer, const graph_pass& pass, const float* x, const float* query_rank);

  graph_ops ops_;
  bool query_ready_ = false;
  std::vector<float> query_, head_weight_, score_, block_score_;
  std::vector<uint32_t> scratch_index_, visible_;
  std::vector<int32_t> chosen_;
  std::vector<uint32_t> count_;
  std::vector<candidates> candidates_;  ///< one per segment
};

}  // namespace deepinfer::model
