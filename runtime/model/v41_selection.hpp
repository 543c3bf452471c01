#pragma once

#include "runtime/model/graph_pass.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace deepinfer::model {

/// Which compressed entries each row attends: computed by the index sources, reused by the layers
/// behind them within the same pass, forgotten afterwards.
class v41_selection {
public:
  explicit v41_selection(const graph_context& context) : ops_(context) {}

  /// Per index source, in this order: `prepare`, the products into `weights` and (when
  /// `needs_scores`) into `query` by the caller, `choose`.
  void prepare(uint32_t layer, const graph_pass& pass);
  /// False when every row sees so few entries that all are chosen whatever their scores.
  [[nodiscard]] bool needs_scores() const { return needs_scores_; }
  [[nodiscard]] float* weights(uint32_t rows);  ///< [rows][index_heads]
  [[nodiscard]] float* query(uint32_t rows);    ///< [rows][index_heads][index_width]
  void choose(uint32_t layer, const graph_pass& pass);

  /// Only these rows (ascending) stay: of what is chosen, not of the candidates.
  void keep(std::span<const uint32_t> rows);

  /// Of the latest index source; row `first_row + i` of the pass, [.][index_top] ascending.
  [[nodiscard]] const int32_t* chosen(uint32_t row) const {
    return chosen_.data() + size_t{row} * ops_.context.config.index_top;
  }
  [[nodiscard]] const uint32_t* count(uint32_t row) const { return count_.data() + row; }

private:
  /// Of one segment. Candidate blocks live from the candidate source to the end of the pass.
  struct segment_plan {
    std::vector<uint8_t> mask;  ///< [rows][blocks]
    uint32_t entries = 0;
    uint32_t blocks = 0;
    bool everything = true;  ///< every visible entry is a candidate
    bool scores = false;
  };

  void choose_all(const graph_segment& segment, uint32_t ratio);
  void score(uint32_t layer, const graph_segment& segment, segment_plan& plan);

  graph_ops ops_;
  bool needs_scores_ = false;
  std::vector<float> query_, weight_, score_;
  std::vector<uint32_t> visible_;
  std::vector<int32_t> chosen_;
  std::vector<uint32_t> count_;
  std::vector<segment_plan> plans_;
};

}  // namespace deepinfer::model
