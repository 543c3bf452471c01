#pragma once

#include "kernels/api/table.hpp"
#include "runtime/model/v41_config.hpp"
#include "runtime/model/v41_sequence.hpp"
#include "runtime/model/v41_weights.hpp"

#include <cstdint>
#include <span>
#include <vector>

/// What the parts of the graph share: one pass computes a bounded number of rows of any number of
/// sequences, layer by layer.
namespace deepinfer::model {

/// L0: exact mathematics. L1: the cache quantisers too, which belong to the trained model.
enum class numeric_level : uint8_t { L0 = 0, L1 = 1 };

/// One sequence's rows in a pass: `tokens` at positions target->computed, +1, ...
struct graph_segment {
  v41_sequence* target = nullptr;
  std::span<const int32_t> tokens;
  uint32_t first_row = 0;

  [[nodiscard]] uint32_t rows() const { return static_cast<uint32_t>(tokens.size()); }
  [[nodiscard]] uint32_t position(uint32_t i) const { return target->computed + i; }
};

/// Everything constant; outlives the graph.
struct graph_context {
  const v41_config& config;
  const v41_weights& weights;
  const kernels::op_table& ops;
  numeric_level level;
};

/// cos and sin of a list of positions, [positions][rope_width / 2].
struct rope_angles {
  std::vector<float> cos;
  std::vector<float> sin;
};

struct graph_pass {
  std::span<const graph_segment> segments;
  uint32_t rows = 0;
  std::vector<uint32_t> position;  ///< of every row
  rope_angles plain;               ///< for layers of ratio 0
  rope_angles compressed;          ///< for all others

  [[nodiscard]] const rope_angles& angles(uint32_t ratio) const {
    return ratio == 0 ? plain : compressed;
  }
};

/// What a layer did, for comparison with the reference; rows of later passes are appended.
struct layer_record {
  std::vector<float> stream, pre;
  std::vector<float> attention_in, attention_out, expert_in, expert_out;
  std::vector<int32_t> experts;
  std::vector<float> expert_weight;
  std::vector<int32_t> chosen;  ///< index sources: [rows][index_top], padded with -1
};

/// Scratch memory that only grows.
template <class T>
T* room(std::vector<T>& memory, size_t count) {
  if (memory.size() < count) memory.resize(count);
  return memory.data();
}

/// The pieces nearly every layer uses, on one queue.
class graph_ops {
public:
  explicit graph_ops(const graph_context& shared) : context(shared) {}

  const graph_context& context;
  kernels::stream queue;

  /// [rows][m.rows] from dense [rows][m.width].
  void linear(float* out, const float* in, const matrix& m, uint32_t rows) {
    context.ops.linear(queue, {out, in, m.values.data(), rows, m.width, m.rows, m.width, m.rows});
  }
  void norm(float* data, const std::vector<float>& gain, uint32_t rows) {
    context.ops.rms_norm(queue, {data, data, gain.data(), rows, static_cast<uint32_t>(gain.size()),
                                 static_cast<float>(context.config.norm_epsilon)});
  }
  void rope(float* data,
            const rope_angles& angles,
            uint32_t rows,
            uint32_t heads,
            uint32_t head_width,
            kernels::turn direction = kernels::turn::forward) {
    context.ops.rope(queue, {data, angles.cos.data(), angles.sin.data(), rows, heads, head_width,
                             context.config.rope_width / 2, direction});
  }
  /// What storing a cache row would change.
  void quantise(float* data, uint32_t rows, uint32_t width, kernels::row_format format) {
    if (context.level != numeric_level::L0)
      context.ops.fake_quant(queue, {data, rows, width, format});
  }
};

/// Rotary frequencies of a layer kind: base^(-2j / rope_width), in fp32 as the released model
/// builds them, stretched by YaRN where the kind has it.
[[nodiscard]] std::vector<float> rope_frequencies(const v41_config& config,
                                                  double base,
                                                  const yarn_config& yarn);

}  // namespace deepinfer::model
