#include "kernels/api/vision.hpp"

#include "kernels/ref/ref.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace deepinfer::kernels::ref {

void grid_rope(stream&, const grid_rope_args& a) {
  const size_t quarter = a.head_width / 4, half = a.head_width / 2;
  for (size_t row = 0; row < a.grid_rows; ++row)
    for (size_t column = 0; column < a.grid_columns; ++column)
      for (size_t h = 0; h < a.heads; ++h) {
        float* head =
            a.data + (row * a.grid_columns + column) * a.stride + h * size_t{a.head_width};
        for (size_t i = 0; i < half; ++i) {
          const size_t at = i < quarter ? row * quarter + i : column * quarter + i - quarter;
          const double x = head[i], y = head[i + half], c = a.cos[at], s = a.sin[at];
          head[i] = rounded(static_cast<float>(x * c - y * s), a.round);
          head[i + half] = rounded(static_cast<float>(y * c + x * s), a.round);
        }
      }
}

void full_attention(stream&, const full_attention_args& a) {
  std::vector<double> weight(a.rows), out(a.width);
  for (size_t r = 0; r < a.rows; ++r)
    for (size_t h = 0; h < a.heads; ++h) {
      const float* query = a.query + r * a.stride + h * a.width;
      for (size_t i = 0; i < a.rows; ++i) {
        const float* key = a.key + i * a.stride + h * a.width;
        weight[i] = 0;
        for (size_t c = 0; c < a.width; ++c) weight[i] += double{query[c]} * key[c];
        weight[i] *= a.scale;
      }
      const double most = *std::max_element(weight.begin(), weight.end());
      double total = 0;
      std::fill(out.begin(), out.end(), 0.0);
      for (size_t i = 0; i < a.rows; ++i) {
        const double e = std::exp(weight[i] - most);
        total += e;
        for (size_t c = 0; c < a.width; ++c) out[c] += e * a.value[i * a.stride + h * a.width + c];
      }
      for (size_t c = 0; c < a.width; ++c)
        a.out[(r * a.heads + h) * a.width + c] =
            rounded(static_cast<float>(out[c] / total), a.round);
    }
}

void add(stream&, const add_args& a) {
  for (size_t i = 0; i < a.count; ++i) a.out[i] = rounded(a.a[i] + a.b[i], a.round);
}

void gelu(stream&, const gelu_args& a) {
  for (size_t i = 0; i < a.count; ++i) {
    const double x = a.in[i];
    a.out[i] = rounded(static_cast<float>(0.5 * x * (1 + std::erf(x / std::sqrt(2.0)))), a.round);
  }
}

void merge_cells(stream&, const merge_cells_args& a) {
  const size_t area = size_t{a.side} * a.side;
  const size_t down = (a.grid_rows + a.side - 1) / a.side;
  const size_t across = (a.grid_columns + a.side - 1) / a.side;
  for (size_t i = 0; i < down * across * a.width * area; ++i) {
    const size_t x = i % a.side, y = i / a.side % a.side, c = i / area % a.width;
    const size_t cell = i / area / a.width;
    const size_t row = cell / across * a.side + y, column = cell % across * a.side + x;
    const bool inside = row < a.grid_rows && column < a.grid_columns;
    a.out[i] = inside ? a.in[(row * a.grid_columns + column) * a.width + c] : 0.0f;
  }
}

}  // namespace deepinfer::kernels::ref
