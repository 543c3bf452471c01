#pragma once

#include "kernels/api/linear.hpp"

#include <cstddef>
#include <cstdint>

namespace deepinfer::kernels::cpu {

// Sizes of the pieces in which scratch memory and the caches are used; measured.
inline constexpr size_t linear_columns = 1024;  ///< multiplied at once, multiple of 64
inline constexpr size_t linear_group = 32;      ///< outputs decoded at once for many rows
inline constexpr size_t linear_outputs = 128;   ///< of one unit, where there are enough
inline constexpr size_t linear_row_block = 66;  ///< input rows of one unit, whole tiles
inline constexpr size_t linear_few_rows = 18;   ///< up to these, a decoded tile is used at once
/// Inputs that products of few rows may arrange in scratch memory, and scale there once more.
inline constexpr size_t linear_stream_floats = 120'000;
inline constexpr size_t linear_stream_outputs = 64;  ///< computed together by them

/// A rectangle of one product's result.
struct linear_unit {
  const linear_args* args;
  size_t first_output, last_output;
  size_t first_row, last_row;
};

/// How a batch is cut into units of similar cost, the dearest first, so that threads end together.
/// Cuts do not change results.
class linear_plan {
public:
  static constexpr uint32_t max_items = 256;

  /// `batch.count` <= max_items. The items must outlive the plan.
  linear_plan(const linear_batch_args& batch, uint32_t threads);

  [[nodiscard]] size_t units() const { return units_; }
  /// Units taken at once: all of them, where a hand-over would cost more than it saves.
  [[nodiscard]] size_t grain() const { return grain_; }
  [[nodiscard]] linear_unit unit(size_t index) const;

private:
  struct share {
    const linear_args* args;
    size_t first_unit;
    uint32_t outputs;  // of one unit
    uint32_t row_blocks;
    double unit_cost;
  };

  share shares_[max_items];
  uint32_t count_ = 0;
  size_t units_ = 0;
  size_t grain_ = 1;
};

}  // namespace deepinfer::kernels::cpu
