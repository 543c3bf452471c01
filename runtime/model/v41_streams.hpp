#pragma once

#include "runtime/model/graph_pass.hpp"

#include <span>
#include <vector>

namespace deepinfer::model {

/// The residual streams of a pass and how sublayers read and write them ("single-pass"
/// hyper-connections: a sublayer reads through the `pre` of the sublayer before it, and writes
/// through its own `post` and `comb`). Per sublayer: `mix_product`, `read`, `write`.
class v41_streams {
public:
  explicit v41_streams(const graph_context& context) : ops_(context) {}

  /// Every stream of row r = the embedding of id[r], or `instead[r]` (null: none).
  void start(std::span<const int32_t> ids, const float* const* instead);

  /// The product of the sublayer's mixing weights, to be computed with others before `write`.
  [[nodiscard]] kernels::linear_args mix_product(const hyper_weights& w);
  /// out = norm(sum of the streams by the current pre), [rows][width].
  void read(const std::vector<float>& gain, float* out);
  /// The sublayer's result into the streams; its own `pre` becomes the current one.
  void write(const hyper_weights& w, const float* result);

  /// Only the rows `source` (ascending) stay.
  void keep(std::span<const uint32_t> source);
  /// out[r] = mean of the streams of row r, [rows][width].
  void mean(float* out);
  /// out[i] = the streams of row rows[i] by the current pre, before any norm.
  void collapse(std::span<const uint32_t> rows, float* out);
  /// Replaces streams and pre, for comparisons layer by layer.
  void assign(std::span<const float> x, std::span<const float> pre);

  [[nodiscard]] uint32_t rows() const { return rows_; }
  [[nodiscard]] float* x() { return x_.data(); }
  [[nodiscard]] const float* pre() const { return pre_.data(); }

private:
  graph_ops ops_;
  uint32_t rows_ = 0;
  std::vector<float> x_, pre_, next_pre_, product_, post_, comb_;
};

}  // namespace deepinfer::model
