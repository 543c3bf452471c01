#include "kernels/api/portable_math.hpp"
#include "kernels/cpu/by_rows.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/row_decode.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

// Rows lie anywhere in a table far larger than any cache: the next few are asked for in time.
constexpr size_t rows_ahead = 8;

void prefetch_row(const engram_rows_args& a, size_t i) {
  const uint8_t* codes = a.table + static_cast<size_t>(a.id[i]) * a.width;
  for (size_t c = 0; c < a.width; c += 64) __builtin_prefetch(codes + c);
  __builtin_prefetch(a.scales + static_cast<size_t>(a.id[i]) * (a.width / 32));
}

void decode_engram_row(const engram_rows_args& a, size_t i) {
  const uint8_t* codes = a.table + static_cast<size_t>(a.id[i]) * a.width;
  const uint8_t* scales = a.scales + static_cast<size_t>(a.id[i]) * (a.width / 32);
  float* out = a.out + i * a.width;
  for (size_t c = 0; c < a.width; c += lane_count)
    store(out + c, e4m3_values_of(load_bytes(codes + c)) * all(ue8m0_value(scales[c / 32])));
}

struct three_sums {
  float x2, key2, dot;
};

DEEPINFER_INLINE three_sums sums_of(const float* x,
                                    const float* key,
                                    const float* weight,
                                    size_t n) {
  long_sum x2, key2, dot;
  const auto step = [&](size_t i, size_t k, auto lanes) {
    const vec16 a = load(x + i, lanes), b = load(key + i, lanes);
    x2.part[k] = fma(a, a, x2.part[k]);
    key2.part[k] = fma(b, b, key2.part[k]);
    dot.part[k] = fma(a * load(weight + i, lanes), b, dot.part[k]);
  };
  size_t i = 0;
  for (; i + 64 <= n; i += 64)
    for (size_t k = 0; k < 4; ++k) step(i + 16 * k, k, all_lanes{});
  for (size_t k = 0; i < n; i += 16, ++k) step(i, k, tail_lanes{n - i});
  return {x2.total(), key2.total(), dot.total()};
}

void gate_stream(const engram_gate_args& a, size_t r, size_t k) {
  const size_t d = a.width;
  const auto n = static_cast<double>(d);
  const float* kv = a.kv + r * (a.streams + 1) * d;
  const float* value = kv + a.streams * d;
  float* x = a.x + (r * a.streams + k) * d;
  const three_sums s = sums_of(x, kv + k * d, a.qk_weight + k * d, d);
  const double rms_x = std::sqrt(s.x2 / n + a.epsilon);
  const double rms_key = std::sqrt(s.key2 / n + a.epsilon);
  const double cosine = s.dot / (rms_x * rms_key * std::sqrt(n));
  const double root = std::copysign(std::sqrt(std::max(std::fabs(cosine), 1e-6)), cosine);
  const vec16 gate = all(static_cast<float>(portable_sigmoid(root)));
  over_lanes(d, [&](size_t c, auto lanes) {
    const vec16 y = fma(gate, load(value + c, lanes), load(x + c, lanes));
    store(x + c, round_to(y, a.round), lanes);
  });
}

}  // namespace

void engram_rows(stream& queue, const engram_rows_args& a) {
  by_rows(queue, a.count, size_t{a.width} * 4, [&](const worker&, size_t first, size_t last) {
    for (size_t i = first; i < std::min(last, first + rows_ahead); ++i) prefetch_row(a, i);
    for (size_t i = first; i < last; ++i) {
      if (i + rows_ahead < last) prefetch_row(a, i + rows_ahead);
      decode_engram_row(a, i);
    }
  });
}

void engram_gate(stream& queue, const engram_gate_args& a) {
  by_rows(queue, size_t{a.rows} * a.streams, size_t{a.width} * 4,
          [&](const worker&, size_t first, size_t last) {
            for (size_t i = first; i < last; ++i) {
              const size_t r = i / a.streams;
              if (a.is_image == nullptr || a.is_image[r] == 0) gate_stream(a, r, i % a.streams);
            }
          });
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
