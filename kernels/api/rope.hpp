#pragma once

#include "kernels/api/number_formats.hpp"

#include <cstdint>

namespace deepinfer::kernels {

/// cos[r][j], sin[r][j] of the angle fp32(position[r]) * frequency[j], the product rounded to fp32
/// (so that far positions turn exactly as in the released model).
struct rope_table_args {
  float* cos;
  float* sin;
  const uint32_t* position;
  const float* frequency;
  uint32_t rows;
  uint32_t pairs;
};

enum class turn : uint8_t { forward, backward };

/// Rotates, in place, adjacent channel pairs of the last `2 * pairs` channels of every head:
/// (a, b) -> (a cos - b sin, a sin + b cos); backward uses -sin. `data` is dense
/// [rows][heads][head_width]; tables are [rows][pairs]. 2 * pairs <= head_width.
struct rope_args {
  float* data;
  const float* cos;
  const float* sin;
  uint32_t rows;
  uint32_t heads;
  uint32_t head_width;
  uint32_t pairs;
  turn direction;
  rounding round;  ///< of the rotated channels
};

}  // namespace deepinfer::kernels
