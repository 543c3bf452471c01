#include "actors/bench/machine_limits.hpp"

#include "kernels/api/cpu_probe.hpp"

#include <time.h>

#include <algorithm>
#include <vector>

namespace deepinfer::bench {
namespace {

constexpr size_t read_buffer_bytes = size_t{256} << 20;
constexpr size_t read_unit_bytes = size_t{1} << 20;

}  // namespace

double bench_seconds(uint32_t threads) {
  timespec t{};
  ::clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

machine_limits measure_limits(uint32_t threads) {
  const kernels::cpu_probe probe = kernels::make_cpu_probe(kernels::best_cpu_isa());
  const kernels::cpu_device_ptr device = kernels::make_cpu_device({.threads = threads});
  if (device == nullptr) return {};
  kernels::stream queue = stream_of(*device);
  const std::vector<uint8_t> memory(read_buffer_bytes, 1);
  const auto best_rate = [threads](double units, const auto& work) {
    double best = 0;
    // The fastest repetition: anything else is other people's work.
    for (int repetition = 0; repetition < 4; ++repetition) {
      const double begun = bench_seconds(threads);
      work();
      best = std::max(best, units / (bench_seconds(threads) - begun));
    }
    return best;
  };
  machine_limits out;
  out.read_bytes = best_rate(static_cast<double>(read_buffer_bytes), [&] {
    probe.read(queue, {memory.data(), read_unit_bytes,
                       static_cast<uint32_t>(read_buffer_bytes / read_unit_bytes), 1});
  });
  constexpr uint64_t steps = 200'000;
  const uint32_t units = threads * 8;
  out.fma_flops = best_rate(static_cast<double>(probe.flops_of_step * steps * units), [&] {
    probe.multiply(queue, {units, steps});
  });
  return out;
}

}  // namespace deepinfer::bench
