#include "kernels/cpu/by_rows.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/vec16_math.hpp"

#include <cstddef>
#include <cstring>
#include <limits>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

void swiglu_row(const swiglu_args& a, size_t r) {
  const float* gate = a.gate + r * a.width;
  const float* up = a.up + r * a.width;
  float* out = a.out + r * a.width;
  const vec16 limit = all(a.limit > 0 ? a.limit : std::numeric_limits<float>::infinity());
  const vec16 least = all(0.0f) - limit;
  const vec16 weight = all(a.row_weight == nullptr ? 1.0f : a.row_weight[r]);
  over_lanes(a.width, [&](size_t c, auto lanes) {
    // the number is the second argument, so that NaN stays NaN
    const vec16 g = min(limit, load(gate + c, lanes));
    const vec16 u = max(least, min(limit, load(up + c, lanes)));
    const vec16 silu = g / (all(1.0f) + exp(all(0.0f) - g));
    store(out + c, round_to(silu * u * weight, a.round), lanes);
  });
}

void combine_row(const combine_args& a, size_t r) {
  const uint32_t* place = a.place + r * a.slots;
  over_lanes(a.width, [&](size_t c, auto lanes) {
    vec16 sum = all(0.0f);
    for (size_t s = 0; s < a.slots; ++s)
      sum = sum + load(a.parts + size_t{place[s]} * a.width + c, lanes);
    sum = sum + load(a.shared + r * a.width + c, lanes);
    store(a.out + r * a.width + c, round_to(sum, a.round), lanes);
  });
}

}  // namespace

void gather_rows(stream& queue, const gather_rows_args& a) {
  by_rows(queue, a.rows, a.width, [&](const worker&, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i)
      std::memcpy(a.out + i * a.width, a.in + size_t{a.index[i]} * a.width,
                  a.width * sizeof *a.out);
  });
}

void swiglu(stream& queue, const swiglu_args& a) {
  by_rows(queue, a.rows, size_t{a.width} * 4, [&](const worker&, size_t first, size_t last) {
    for (size_t r = first; r < last; ++r) swiglu_row(a, r);
  });
}

void combine(stream& queue, const combine_args& a) {
  by_rows(queue, a.rows, (size_t{a.slots} + 1) * a.width,
          [&](const worker&, size_t first, size_t last) {
            for (size_t r = first; r < last; ++r) combine_row(a, r);
          });
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
