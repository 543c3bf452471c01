#pragma once

#include "kernels/api/number_formats.hpp"
#include "kernels/api/paged.hpp"

#include <cstdint>

namespace deepinfer::kernels {

/// Keys of one row, and their width, that every backend has room for.
inline constexpr uint32_t most_attended_keys = 1u << 16;
inline constexpr uint32_t most_attended_width = 1024;

/// Attention of every row over its own short list of keys, which are also the values, shared by
/// all heads: first `window_count[r]` consecutive rows of `window` from `window_first[r]`, then the
/// rows `selected[r][0..selected_count[r])` of `chosen`, in that order:
///   s_i = scale * (query . key_i);  m = max s_i
///   out = sum exp(s_i - m) key_i / (sum exp(s_i - m) + exp(sink[h] - m))
/// A row without keys gives zeros. `round` bf16: the exponentials are rounded before they weigh the
/// keys (not in the denominator), and the result is.
struct attention_args {
  float* out;           // [rows][heads][width]
  const float* query;   // [rows][heads][width]
  const float* window;  // rows of `width`
  const uint32_t* window_first;
  const uint32_t* window_count;
  paged_rows chosen;               // rows of `width`
  const int32_t* selected;         // [rows][selected_stride]; null with selected_count null: none
  const uint32_t* selected_count;  // [rows]
  const float* sink;               // [heads]
  uint32_t rows;
  uint32_t heads;
  uint32_t width;
  uint32_t selected_stride;
  float scale;
  rounding round;
};

/// Independent attentions as one unit of work.
struct attention_batch_args {
  const attention_args* items;
  uint32_t count;
};

}  // namespace deepinfer::kernels
