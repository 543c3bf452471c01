#pragma once

#include "kernels/api/table.hpp"
#include "runtime/model/numeric_level.hpp"
#include "runtime/model/scratch.hpp"
#include "runtime/model/v41_config.hpp"
#include "runtime/model/v41_sequence.hpp"
#include "runtime/model/v41_weights.hpp"

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

/// What the parts of the graph share: one pass computes a bounded number of rows of any number of
/// sequences, layer by layer.
namespace deepinfer::model {

/// One sequence's rows in a pass, at positions `start`, start + 1, ...
struct graph_segment {
  v41_sequence* target = nullptr;
  std::span<const int32_t> tokens = {};
  uint32_t start = 0;      ///< target->computed when the pass begins
  uint32_t first_row = 0;  ///< in the pass
  /// Decoder replay: positions before this one stay in the encoder, and the decoder's windows do
  /// not reach below it. 0: nothing is trimmed.
  uint32_t kept_from = 0;
  /// [tokens]: rows that replace the embedding of an image's positions; empty: none.
  std::span<const float* const> instead = {};

  [[nodiscard]] bool is_image(size_t i) const { return !instead.empty() && instead[i] != nullptr; }
  [[nodiscard]] uint32_t rows() const { return static_cast<uint32_t>(tokens.size()); }
  [[nodiscard]] uint32_t end() const { return start + rows(); }
  [[nodiscard]] uint32_t position(uint32_t i) const { return start + i; }
};

/// How decoder replay treats the decoder's first layer (model-v41 1.4).
enum class replay_variant : uint8_t {
  late,  ///< its window is exact: keys are made of every row
  ced,   ///< it is trimmed like the layers behind it
};

/// What the linear layers had to do, for setting a time beside the machine's limits.
struct linear_work {
  uint64_t flops = 0;         ///< multiplications and additions
  uint64_t weight_bytes = 0;  ///< stored bytes of every matrix, once for each product with it
};

/// How long a step waits in front of a layer for the entries of a prefix hit.
inline constexpr std::chrono::milliseconds default_swap_wait{10'000};

/// Everything constant; outlives the graph.
struct graph_context {
  const v41_config& config;
  const v41_weights& weights;
  const kernels::op_table& ops;
  kernels::stream queue;
  numeric_level level;
  replay_variant replay = replay_variant::late;
  linear_work* work = nullptr;  ///< counted when not null
  std::chrono::milliseconds swap_wait = default_swap_wait;
};

/// cos and sin of a list of positions, [positions][rope_width / 2].
struct rope_angles {
  std::vector<float> cos;
  std::vector<float> sin;
};

struct graph_pass {
  std::vector<graph_segment> segments;
  uint32_t rows = 0;
  std::vector<uint32_t> position;  ///< of every row
  std::vector<uint8_t> image;      ///< of every row: 1 inside an image; empty: no image
  rope_angles plain;               ///< for layers of ratio 0
  rope_angles compressed;          ///< for all others

  /// `position` and `rows` out of the segments.
  void place_rows() {
    position.clear();
    for (const graph_segment& s : segments)
      for (uint32_t i = 0; i < s.rows(); ++i) position.push_back(s.position(i));
    rows = static_cast<uint32_t>(position.size());
  }

  [[nodiscard]] const rope_angles& angles(uint32_t ratio) const {
    return ratio == 0 ? plain : compressed;
  }
  [[nodiscard]] const uint8_t* is_image() const { return image.empty() ? nullptr : image.data(); }
};

/// What a layer did, for comparison with the reference; rows of later passes are appended. Rows
/// that decoder replay leaves out are missing.
struct layer_record {
  std::vector<float> stream, pre;
  std::vector<float> attention_in, attention_out, expert_in, expert_out;
  std::vector<int32_t> experts;
  std::vector<float> expert_weight;
  std::vector<int32_t> chosen;  ///< index sources: [rows][index_top], padded with -1
};

/// An input of linear layers: as it is, and as the FP8 and FP4 weights of level L2 see it.
struct activation {
  const float* plain;
  const float* quantised;  ///< `plain` below level L2
  uint32_t rows;
};

/// The pieces nearly every layer uses, on one queue.
class graph_ops {
public:
  explicit graph_ops(const graph_context& shared) : context(shared), queue(shared.queue) {}

  const graph_context& context;
  kernels::stream queue;

  /// Where the released model rounds to bf16.
  [[nodiscard]] kernels::rounding bf16() const {
    return context.level == numeric_level::L2 ? kernels::rounding::bf16 : kernels::rounding::none;
  }

  /// `scratch` holds the quantised copy for as long as the answer is used.
  activation prepare(const float* x, uint32_t rows, uint32_t width, std::vector<float>& scratch) {
    if (context.level != numeric_level::L2) return {x, x, rows};
    float* quantised = room(scratch, size_t{rows} * width);
    context.ops.fake_quant(queue, {quantised, x, rows, width, kernels::row_format::fp8_32});
    return {x, quantised, rows};
  }

  /// [rows][m.rows] from dense [rows][m.width], rounded as a linear layer of the model.
  [[nodiscard]] kernels::linear_args product(float* out,
                                             const activation& in,
                                             const kernels::weight_matrix& m) const {
    const bool scaled = m.scales != nullptr;
    return {out, scaled ? in.quantised : in.plain, m, nullptr, in.rows, m.width, m.rows, bf16()};
  }
  /// The same without the rounding: what the release computes in fp32.
  [[nodiscard]] static kernels::linear_args exact_product(float* out,
                                                          const float* in,
                                                          const kernels::weight_matrix& m,
                                                          uint32_t rows) {
    return {out, in, m, nullptr, rows, m.width, m.rows, kernels::rounding::none};
  }
  void linear(std::span<const kernels::linear_args> items) {
    for (const kernels::linear_args& item : items) count(item);
    context.ops.linear(queue, {items.data(), static_cast<uint32_t>(items.size())});
  }
  void linear(const kernels::linear_args& item) { linear(std::span(&item, 1)); }

  void count(const kernels::linear_args& item) const {
    if (context.work == nullptr) return;
    const kernels::weight_matrix& w = item.weight;
    context.work->flops += uint64_t{2} * item.rows * w.rows * w.width;
    context.work->weight_bytes += w.rows * row_bytes(w) + scale_offset(w, (w.rows + 31) / 32 * 32);
  }

  void norm(float* data, const std::vector<float>& gain, uint32_t rows) {
    context.ops.rms_norm(queue, {data, data, gain.data(), rows, static_cast<uint32_t>(gain.size()),
                                 static_cast<float>(context.config.norm_epsilon), bf16()});
  }
  void angles(rope_angles& out,
              std::span<const uint32_t> positions,
              const std::vector<float>& frequency) {
    const size_t count = positions.size() * frequency.size();
    context.ops.rope_table(
        queue, {room(out.cos, count), room(out.sin, count), positions.data(), frequency.data(),
                static_cast<uint32_t>(positions.size()), static_cast<uint32_t>(frequency.size())});
  }
  void rope(float* data,
            const rope_angles& angles,
            uint32_t rows,
            uint32_t heads,
            uint32_t head_width,
            kernels::turn direction = kernels::turn::forward) {
    context.ops.rope(queue, {data, angles.cos.data(), angles.sin.data(), rows, heads, head_width,
                             context.config.rope_width / 2, direction, bf16()});
  }
};

/// Rotary frequencies of a layer kind: base^(-2j / rope_width), in fp32 as the released model
/// builds them, stretched by YaRN where the kind has it.
[[nodiscard]] std::vector<float> rope_frequencies(const v41_config& config,
                                                  double base,
                                                  const yarn_config& yarn);

}  // namespace deepinfer::model
