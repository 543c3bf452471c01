#pragma once

#include <cstdint>

namespace deepinfer::bench {

/// What the machine reaches right now, with so many threads at once.
struct machine_limits {
  double read_bytes = 0;  ///< a second, of memory that no cache holds
  double fma_flops = 0;   ///< a second, fp32 multiplications and additions in registers
};

/// The clock of a measurement: one thread is timed by the processor time it got, so that a machine
/// that does other things as well gives the same figures; several by the wall clock.
[[nodiscard]] double bench_seconds(uint32_t threads);

/// Takes some 0.3 s.
[[nodiscard]] machine_limits measure_limits(uint32_t threads);

}  // namespace deepinfer::bench
