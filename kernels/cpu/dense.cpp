#include "kernels/api/number_formats.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/lanes.hpp"

#include <cmath>
#include <cstddef>
#include <cstring>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {

void rms_norm(stream&, const rms_norm_args& a) {
  for (size_t r = 0; r < a.rows; ++r) {
    const float* in = a.in + r * a.width;
    float* out = a.out + r * a.width;
    const float mean = dot(in, in, a.width) / static_cast<float>(a.width);
    const float scale = 1.0f / std::sqrt(mean + a.epsilon);
    for (size_t i = 0; i < a.width; ++i) out[i] = rounded(in[i] * scale * a.weight[i], a.round);
  }
}

// In double and rounded once: two C libraries that differ in the last bit of a double agree here.
void rope_table(stream&, const rope_table_args& a) {
  for (size_t r = 0; r < a.rows; ++r)
    for (size_t j = 0; j < a.pairs; ++j) {
      const float angle = static_cast<float>(a.position[r]) * a.frequency[j];
      a.cos[r * a.pairs + j] = static_cast<float>(std::cos(double{angle}));
      a.sin[r * a.pairs + j] = static_cast<float>(std::sin(double{angle}));
    }
}

void rope(stream&, const rope_args& a) {
  const float sign = a.direction == turn::forward ? 1.0f : -1.0f;
  for (size_t r = 0; r < a.rows; ++r) {
    const float* cos = a.cos + r * a.pairs;
    const float* sin = a.sin + r * a.pairs;
    for (size_t h = 0; h < a.heads; ++h) {
      float* tail = a.data + (r * a.heads + h + 1) * a.head_width - 2 * size_t{a.pairs};
      for (size_t j = 0; j < a.pairs; ++j) {
        const float s = sign * sin[j];
        const float x = tail[2 * j], y = tail[2 * j + 1];
        tail[2 * j] = rounded(x * cos[j] - y * s, a.round);
        tail[2 * j + 1] = rounded(x * s + y * cos[j], a.round);
      }
    }
  }
}

void pool_groups(stream&, const pool_groups_args& a) {
  for (size_t g = 0; g < a.groups; ++g) {
    const float* value = a.value + g * a.ratio * a.width;
    const float* gate = a.gate + g * a.ratio * a.width;
    for (size_t c = 0; c < a.width; ++c) {
      float most = gate[c];
      for (size_t i = 1; i < a.ratio; ++i)
        most = gate[i * a.width + c] > most ? gate[i * a.width + c] : most;
      float sum = 0, total = 0;
      for (size_t i = 0; i < a.ratio; ++i) {
        const float e = exp_lane(gate[i * a.width + c] - most);
        total += e;
        sum += e * value[i * a.width + c];
      }
      a.out[g * a.width + c] = rounded(sum / total, a.round);
    }
  }
}

void embed(stream&, const embed_args& a) {
  for (size_t r = 0; r < a.rows; ++r) {
    const uint16_t* row = a.table + static_cast<size_t>(a.id[r]) * a.width;
    float* x = a.x + r * a.streams * a.width;
    const float* instead = a.instead == nullptr ? nullptr : a.instead[r];
    for (size_t c = 0; c < a.width; ++c)
      x[c] = instead == nullptr ? bf16_value(row[c]) : instead[c];
    for (size_t k = 1; k < a.streams; ++k) std::memcpy(x + k * a.width, x, a.width * sizeof *x);
  }
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
