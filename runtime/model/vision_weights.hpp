#pragma once

#include "kernels/api/table.hpp"
#include "proto/types/result.hpp"
#include "runtime/model/checkpoint.hpp"
#include "runtime/model/vision_config.hpp"

#include <cstdint>
#include <vector>

/// The weights of the vision tower. Matrices stay in the mapped files as bf16; biases and gains,
/// which are small, are fp32 copies.
namespace deepinfer::model {

struct vision_linear {
  kernels::weight_matrix weight;
  std::vector<float> bias;  ///< empty: none
};

struct vision_block {
  std::vector<float> attention_norm;
  std::vector<float> mlp_norm;
  vision_linear query_key_value;  ///< [3 * width][width]
  vision_linear output;
  kernels::weight_matrix gate;  ///< first half of w1
  kernels::weight_matrix up;    ///< second half
  kernels::weight_matrix down;
};

struct vision_weights {
  vision_linear patch;
  std::vector<vision_block> blocks;
  std::vector<float> norm;
  vision_linear aligner_in;   ///< [text width][cell width]
  vision_linear aligner_out;  ///< [text width][text width]
  /// Embeddings of the delimiters of a span, [text width].
  std::vector<float> start;
  std::vector<float> newline;
  std::vector<float> end;
  uint64_t mapped_bytes = 0;    ///< of the matrices
  uint64_t resident_bytes = 0;  ///< of the copies

  [[nodiscard]] uint32_t text_width() const { return aligner_out.weight.rows; }
};

/// Finds every tensor of the tower; `from` must outlive the answer. `not_found` when one is
/// missing, `corrupt` when type or shape are others or a bias, gain or delimiter is not finite.
/// Matrices are not read: numbers in them that are not finite show when an image is encoded.
[[nodiscard]] result<vision_weights> load_vision_weights(const checkpoint& from,
                                                         const vision_config& config,
                                                         uint32_t text_width,
                                                         const kernels::op_table& ops);

}  // namespace deepinfer::model
