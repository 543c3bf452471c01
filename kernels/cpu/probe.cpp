#include "kernels/api/cpu_probe.hpp"
#include "kernels/cpu/cpu.hpp"
#include "kernels/cpu/parallel.hpp"
#include "kernels/cpu/vec16.hpp"

#include <atomic>
#include <cstddef>
#include <thread>

DEEPINFER_SIMD_BEGIN
namespace deepinfer::kernels::cpu::DEEPINFER_ISA {
namespace {

// Makes the compiler believe that somebody looks at the value.
DEEPINFER_INLINE void keep(float value) {
  asm volatile("" : : "x"(value));
}

// As many as hide the latency and fit the registers.
#if defined(DEEPINFER_FOR_AVX512)
constexpr size_t chains = 24;
#else
constexpr size_t chains = 5;
#endif

// Four streams: one alone is not foreseen far enough to reach the limit.
void read(stream& queue, const read_probe_args& a) {
  parallel(queue, a.units, 1, [&a](const worker&, size_t unit, size_t) {
    constexpr size_t streams = 4;
    const size_t floats = a.unit_bytes / sizeof(float) / streams;
    const float* from = reinterpret_cast<const float*>(a.from + unit * a.unit_bytes);
    vec16 sums[streams];
    for (vec16& s : sums) s = all(0.0f);
    for (uint32_t r = 0; r < a.repeats; ++r) {
      for (size_t i = 0; i < floats; i += lane_count)
        for (size_t s = 0; s < streams; ++s) sums[s] = sums[s] + load(from + s * floats + i);
      asm volatile("" : : : "memory");
    }
    keep(sum(sums[0] + sums[1] + sums[2] + sums[3]));
  });
}

void multiply(stream& queue, const multiply_probe_args& a) {
  parallel(queue, a.units, 1, [&a](const worker&, size_t, size_t) {
    vec16 sums[chains];
    for (vec16& s : sums) s = all(1.0f);
    const vec16 factor = all(0.999f);
    for (uint64_t i = 0; i < a.steps; ++i) {
#pragma GCC unroll 24
      for (size_t c = 0; c < chains; ++c) sums[c] = fma(sums[c], factor, factor);
    }
    for (const vec16& s : sums) keep(sum(s));
  });
}

// Two units that wait for each other: neither thread can take both.
void meet(stream& queue) {
  if (thread_count(queue) < 2) return;
  std::atomic<uint32_t> arrived{0};
  parallel(queue, 2, 1, [&arrived](const worker&, size_t, size_t) {
    arrived.fetch_add(1);
    for (uint32_t looks = 0; arrived.load() < 2; ++looks)
      if (looks > 2000) std::this_thread::yield();
  });
}

void handover(stream& queue, const handover_probe_args& a) {
  for (uint32_t i = 0; i < a.regions; ++i) meet(queue);
}

}  // namespace

void fill(cpu_probe& probe) {
  probe.read = read;
  probe.multiply = multiply;
  probe.handover = handover;
  probe.flops_of_step = chains * lane_count * 2;
}

}  // namespace deepinfer::kernels::cpu::DEEPINFER_ISA
DEEPINFER_SIMD_END
