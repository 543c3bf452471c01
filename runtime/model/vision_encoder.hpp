#pragma once

#include "kernels/api/table.hpp"
#include "proto/types/result.hpp"
#include "runtime/image/patches.hpp"
#include "runtime/model/vision_config.hpp"
#include "runtime/model/vision_weights.hpp"

#include <cstdint>
#include <vector>

namespace deepinfer::model {

/// What a position of an image span is; beside the ids travel these as numbers, -1 being text.
enum class image_role : int8_t { start = 0, image = 1, newline = 2, end = 3 };

/// One image in a prompt: START, (IMAGE x columns, NEWLINE) x rows, END. Every position carries the
/// image token's id; `rows` takes the place of its embedding.
struct image_span {
  std::vector<int8_t> roles;
  std::vector<float> rows;  ///< [roles.size()][text width]

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(roles.size()); }
};

/// How the tower wants its images, for `image::fit_image`.
[[nodiscard]] image::fit_rules fit_rules_of(const vision_config& config);

/// The vision tower and the aligner: patches of an image to embeddings of the text model. Scratch
/// memory grows with the largest image seen, linearly in its patches. What it is made of must
/// outlive it; one thread at a time.
class vision_encoder {
public:
  /// `round` bf16: the released model's rounding points (level L2); none: exact (L0, L1).
  vision_encoder(const vision_config& config,
                 const vision_weights& weights,
                 const kernels::op_table& ops,
                 kernels::stream queue,
                 kernels::rounding round);

  /// [token rows * token columns][text width] in reading order. `invalid_argument` for patches of
  /// another size, `too_large` for more than an image may cost, `corrupt` when the result is not
  /// finite. An image's result does not depend on other images.
  [[nodiscard]] result<std::vector<float>> encode(const image::image_patches& patches);

  /// The same with the delimiters around it.
  [[nodiscard]] result<image_span> encode_span(const image::image_patches& patches);

private:
  struct grid {
    uint32_t rows;
    uint32_t columns;
    [[nodiscard]] uint32_t patches() const { return rows * columns; }
  };
  [[nodiscard]] result<void> check(const image::image_patches& patches) const;
  [[nodiscard]] grid token_grid(grid patches) const;
  void embed_patches(const image::image_patches& patches);
  void make_angles(grid g);
  void attend(const vision_block& block, grid g);
  void mlp(const vision_block& block, uint32_t patches);
  std::vector<float> align(grid g);
  void linear(float* out, const float* in, const vision_linear& layer, uint32_t rows);
  void norm(float* out, const float* in, const std::vector<float>& gain, uint32_t rows);
  void add(float* to, const float* what, uint64_t count);
  [[nodiscard]] kernels::linear_args product(float* out,
                                             const float* in,
                                             const kernels::weight_matrix& weight,
                                             uint32_t rows) const;

  const vision_config& config_;
  const vision_weights& weights_;
  const kernels::op_table& ops_;
  kernels::stream queue_;
  kernels::rounding round_;
  std::vector<float> frequency_;
  std::vector<float> cos_, sin_;
  std::vector<float> x_;                   ///< [patches][width]: the stream
  std::vector<float> normed_, branch_;     ///< [patches][width]
  std::vector<float> projected_;           ///< [patches][3 * width]
  std::vector<float> key_columns_;         ///< scratch of the attention
  std::vector<float> gate_, up_, pixels_;  ///< [chunk][...]
  std::vector<float> cells_, hidden_;
};

}  // namespace deepinfer::model
