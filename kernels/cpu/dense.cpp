#include "kernels/api/portable_math.hpp"
#include "kernels/cpu/by_rows.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/vec16_math.hpp"

#include <cmath>
#include <cstddef>
#include <cstring>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

void norm_row(const rms_norm_args& a, size_t r) {
  const float* in = a.in + r * a.width;
  float* out = a.out + r * a.width;
  const float mean = sum_of_squares(in, a.width) / static_cast<float>(a.width);
  const vec16 scale = all(1.0f / std::sqrt(mean + a.epsilon));
  over_lanes(a.width, [&](size_t c, auto lanes) {
    store(out + c, round_to(load(in + c, lanes) * scale * load(a.weight + c, lanes), a.round),
          lanes);
  });
}

// Each number cos cos and -sin sin (backward: sin -sin) twice, as the pairs lie.
void double_table(const rope_args& a, size_t r, float* cos, float* sin) {
  const float sign = a.direction == turn::forward ? 1.0f : -1.0f;
  for (size_t j = 0; j < a.pairs; ++j) {
    cos[2 * j] = cos[2 * j + 1] = a.cos[r * a.pairs + j];
    sin[2 * j + 1] = sign * a.sin[r * a.pairs + j];
    sin[2 * j] = -sin[2 * j + 1];
  }
}

// Not fused, on purpose: the released model rounds both products, and a last bit that differs may
// move a quantised code.
DEEPINFER_INLINE vec16 turned(vec16 x, vec16 cos, vec16 sin) {
  return x * cos + swap_neighbours(x) * sin;
}

void turn_head(float* tail, const float* cos, const float* sin, size_t width, rounding round) {
  over_lanes(width, [&](size_t c, auto lanes) {
    const vec16 y = turned(load(tail + c, lanes), load(cos + c, lanes), load(sin + c, lanes));
    store(tail + c, round_to(y, round), lanes);
  });
}

void pool_group(const pool_groups_args& a, size_t g) {
  const float* value = a.value + g * a.ratio * a.width;
  const float* gate = a.gate + g * a.ratio * a.width;
  over_lanes(a.width, [&](size_t c, auto lanes) {
    const auto gate_of = [&](size_t i) { return load(gate + i * a.width + c, lanes); };
    vec16 most = gate_of(0);
    for (size_t i = 1; i < a.ratio; ++i) most = max(gate_of(i), most);
    vec16 weighted = all(0.0f), total = all(0.0f);
    for (size_t i = 0; i < a.ratio; ++i) {
      const vec16 e = exp(gate_of(i) - most);
      total = total + e;
      weighted = fma(e, load(value + i * a.width + c, lanes), weighted);
    }
    store(a.out + g * a.width + c, round_to(weighted / total, a.round), lanes);
  });
}

void embed_row(const embed_args& a, size_t r) {
  float* x = a.x + r * a.streams * a.width;
  if (a.instead != nullptr && a.instead[r] != nullptr) {
    std::memcpy(x, a.instead[r], a.width * sizeof *x);
  } else {
    const uint16_t* row = a.table + static_cast<size_t>(a.id[r]) * a.width;
    size_t c = 0;
    for (; c + lane_count <= a.width; c += lane_count)
      store(x + c,
            floats_of(shift_left<16>(load_halves(reinterpret_cast<const uint8_t*>(row + c)))));
    for (; c < a.width; ++c) x[c] = bf16_value(row[c]);
  }
  for (size_t k = 1; k < a.streams; ++k) std::memcpy(x + k * a.width, x, a.width * sizeof *x);
}

}  // namespace

void rms_norm(stream& queue, const rms_norm_args& a) {
  by_rows(queue, a.rows, a.width, [&](const worker&, size_t first, size_t last) {
    for (size_t r = first; r < last; ++r) norm_row(a, r);
  });
}

// In double and rounded once, by functions of our own: C libraries differ in the last bit.
void rope_table(stream& queue, const rope_table_args& a) {
  by_rows(queue, a.rows, size_t{a.pairs} * 64, [&](const worker&, size_t first, size_t last) {
    for (size_t i = first * a.pairs; i < last * a.pairs; ++i) {
      const float angle = static_cast<float>(a.position[i / a.pairs]) * a.frequency[i % a.pairs];
      const sine_cosine both = portable_sine_cosine(std::fabs(angle));
      a.cos[i] = static_cast<float>(both.cosine);
      a.sin[i] = static_cast<float>(std::copysign(1.0f, angle) * both.sine);
    }
  });
}

void rope(stream& queue, const rope_args& a) {
  const size_t turned_width = 2 * size_t{a.pairs};
  by_rows(queue, a.rows, turned_width * a.heads * 2,
          [&](const worker& self, size_t first, size_t last) {
            auto* cos = reinterpret_cast<float*>(self.scratch);
            float* sin = cos + turned_width;
            for (size_t r = first; r < last; ++r) {
              double_table(a, r, cos, sin);
              for (size_t h = 0; h < a.heads; ++h)
                turn_head(a.data + (r * a.heads + h + 1) * a.head_width - turned_width, cos, sin,
                          turned_width, a.round);
            }
          });
}

void pool_groups(stream& queue, const pool_groups_args& a) {
  by_rows(queue, a.groups, size_t{a.ratio} * a.width * 4,
          [&](const worker&, size_t first, size_t last) {
            for (size_t g = first; g < last; ++g) pool_group(a, g);
          });
}

void embed(stream& queue, const embed_args& a) {
  by_rows(queue, a.rows, size_t{a.streams} * a.width,
          [&](const worker&, size_t first, size_t last) {
            for (size_t r = first; r < last; ++r) embed_row(a, r);
          });
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
