#pragma once

#include "kernels/api/number_formats.hpp"

#include <cstdint>

namespace deepinfer::kernels {

enum class gate_score : uint8_t { sqrt_softplus, sigmoid, softmax };

/// Chooses `chosen` of `experts` for every row: s = score(logits / temperature); the largest
/// s + bias win, ties to the lower expert, in descending order. weight = s of the winner, divided
/// by the winners' sum + 1e-20 when `normalize` and chosen > 1, times `scale`. The bias never
/// enters a weight. NaN counts as the worst.
struct route_args {
  int32_t* expert;          // [rows][chosen]
  float* weight;            // [rows][chosen]
  const float* logits;      // [rows][experts]
  const float* bias;        // [experts]
  const float* image_bias;  // [experts], for rows of an image; null with is_image null
  const uint8_t* is_image;  // [rows]; null: none is
  uint32_t rows;
  uint32_t experts;
  uint32_t chosen;  // <= experts, <= 64
  gate_score score;
  bool normalize;
  float temperature;  // > 0
  float scale;
};

/// out[i] = in[index[i]], rows of `width` floats. No overlap.
struct gather_rows_args {
  float* out;
  const float* in;
  const uint32_t* index;  // [rows]
  uint32_t rows;
  uint32_t width;
};

/// out = row_weight[r] * silu(g) * u with g = min(gate, limit), u = clamp(up, -limit, limit);
/// limit 0: no clamp; `row_weight` null: 1. `out` may be `gate`.
struct swiglu_args {
  float* out;
  const float* gate;
  const float* up;
  const float* row_weight;
  uint32_t rows;
  uint32_t width;
  float limit;
  rounding round;
};

/// out[r] = (sum over slots s in order of parts[place[r][s]]) + shared[r]
struct combine_args {
  float* out;
  const float* parts;     // rows of `width` in the order the experts produced them
  const uint32_t* place;  // [rows][slots]
  const float* shared;    // [rows][width]
  uint32_t rows;
  uint32_t slots;
  uint32_t width;
  rounding round;  ///< of the sum, once
};

}  // namespace deepinfer::kernels
