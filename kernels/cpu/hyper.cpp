#include "kernels/cpu/by_rows.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/vec16_math.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

// ---- mixing numbers: sixteen rows at a time, one in each lane ---------------------------------

constexpr size_t most_mixes = (2 + max_streams) * max_streams;

// `count` lines of this many numbers, C[j][k] in line j * count + k. The 20 rounds contract, so
// fp32 is enough: an error made in one is taken out by the next.
template <class Count>
DEEPINFER_INLINE void divide_lines(vec16* c, Count n, float epsilon, size_t line, size_t step) {
  for (size_t i = 0; i < n; ++i) {
    vec16 total = all(epsilon);
    for (size_t k = 0; k < n; ++k) total = total + c[i * line + k * step];
    const vec16 inverse = all(1.0f) / total;
    for (size_t k = 0; k < n; ++k) c[i * line + k * step] = c[i * line + k * step] * inverse;
  }
}

template <class Count>
DEEPINFER_INLINE void sinkhorn(vec16* c, Count n, uint32_t rounds, float epsilon) {
  for (size_t j = 0; j < n; ++j) {
    vec16* row = c + j * n;
    vec16 most = row[0], total = all(0.0f);
    for (size_t k = 1; k < n; ++k) most = max(row[k], most);
    for (size_t k = 0; k < n; ++k) total = total + (row[k] = exp(row[k] - most));
    for (size_t k = 0; k < n; ++k) row[k] = row[k] / total + all(epsilon);
  }
  divide_lines(c, n, epsilon, 1, n);  // columns
  for (uint32_t i = 1; i < rounds; ++i) {
    divide_lines(c, n, epsilon, n, 1);  // rows
    divide_lines(c, n, epsilon, 1, n);
  }
}

// m = product * norm * scale + base of up to sixteen rows, a row in each lane.
template <class Count>
DEEPINFER_INLINE void load_mixes(
    const hc_mix_args& a, Count n, size_t first, size_t rows, vec16* m) {
  const size_t width = n * a.width, count = (2 + n) * n;
  float norm[lane_count] = {}, lane[lane_count] = {};
  for (size_t i = 0; i < rows; ++i) {
    const float mean = sum_of_squares(a.x + (first + i) * width, width) / static_cast<float>(width);
    norm[i] = 1.0f / std::sqrt(mean + a.norm_epsilon);
  }
  for (size_t o = 0; o < count; ++o) {
    for (size_t i = 0; i < rows; ++i) lane[i] = a.product[(first + i) * count + o];
    const float scale = a.scale[o < n ? 0 : (o < 2 * n ? 1 : 2)];
    m[o] = fma(load(lane) * load(norm), all(scale), all(a.base[o]));
  }
}

void scatter(const vec16* m, size_t count, size_t first, size_t rows, float* out) {
  float lane[lane_count];
  for (size_t o = 0; o < count; ++o) {
    store(lane, m[o]);
    for (size_t i = 0; i < rows; ++i) out[(first + i) * count + o] = lane[i];
  }
}

template <class Count>
void mix_rows(const hc_mix_args& a, Count n, size_t first, size_t rows) {
  vec16 m[most_mixes];
  load_mixes(a, n, first, rows, m);
  for (size_t k = 0; k < n; ++k) {
    m[k] = sigmoid(m[k]) + all(a.mix_epsilon);
    m[n + k] = all(2.0f) * sigmoid(m[n + k]);
  }
  sinkhorn(m + 2 * n, n, a.rounds, a.mix_epsilon);
  scatter(m, n, first, rows, a.pre);
  scatter(m + n, n, first, rows, a.post);
  scatter(m + 2 * n, n * n, first, rows, a.comb);
}

// ---- streams ----------------------------------------------------------------------------------

template <class Count>
void collapse_row(const hc_collapse_args& a, Count n, size_t r) {
  const size_t d = a.width;
  const float* x = a.x + r * n * d;
  vec16 pre[max_streams];
  for (size_t k = 0; k < n; ++k)
    pre[k] = all(a.pre == nullptr ? 1.0f / static_cast<float>(a.streams) : a.pre[r * n + k]);
  over_lanes(d, [&](size_t c, auto lanes) {
    vec16 sum = pre[0] * load(x + c, lanes);
    for (size_t k = 1; k < n; ++k) sum = fma(pre[k], load(x + k * d + c, lanes), sum);
    store(a.out + r * d + c, round_to(sum, a.round), lanes);
  });
}

template <class Count>
void expand_row(const hc_expand_args& a, Count n, size_t r) {
  const size_t d = a.width;
  float* x = a.x + r * n * d;
  const float* post = a.post + r * n;
  const float* comb = a.comb + r * n * n;
  over_lanes(d, [&](size_t c, auto lanes) {
    const vec16 y = load(a.y + r * d + c, lanes);
    vec16 old[max_streams];
    for (size_t j = 0; j < n; ++j) old[j] = load(x + j * d + c, lanes);
    for (size_t k = 0; k < n; ++k) {
      vec16 sum = all(post[k]) * y;
      for (size_t j = 0; j < n; ++j) sum = fma(all(comb[j * n + k]), old[j], sum);
      store(x + k * d + c, round_to(sum, a.round), lanes);
    }
  });
}

// Calls work(n) with the number of streams as a constant where it is the released model's.
template <class Work>
DEEPINFER_INLINE void with_streams(uint32_t streams, const Work& work) {
  if (streams == 4)
    work(std::integral_constant<size_t, 4>{});
  else
    work(size_t{streams});
}

}  // namespace

void hc_mix(stream& queue, const hc_mix_args& a) {
  const size_t groups = (size_t{a.rows} + lane_count - 1) / lane_count;
  // a lane is a row and a row's bits do not depend on its neighbours
  by_rows(queue, groups, std::min<size_t>(a.rows, lane_count) * a.streams * a.width,
          [&](const worker&, size_t first, size_t last) {
            for (size_t g = first; g < last; ++g)
              with_streams(a.streams, [&](auto n) {
                mix_rows(a, n, g * lane_count, std::min(lane_count, a.rows - g * lane_count));
              });
          });
}

void hc_collapse(stream& queue, const hc_collapse_args& a) {
  by_rows(queue, a.rows, size_t{a.streams} * a.width,
          [&](const worker&, size_t first, size_t last) {
            for (size_t r = first; r < last; ++r)
              with_streams(a.streams, [&](auto n) { collapse_row(a, n, r); });
          });
}

void hc_expand(stream& queue, const hc_expand_args& a) {
  by_rows(queue, a.rows, size_t{a.streams} * a.width * 2,
          [&](const worker&, size_t first, size_t last) {
            for (size_t r = first; r < last; ++r)
              with_streams(a.streams, [&](auto n) { expand_row(a, n, r); });
          });
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
