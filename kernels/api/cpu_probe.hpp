#pragma once

#include "kernels/api/cpu_device.hpp"
#include "kernels/api/stream.hpp"

#include <cstddef>
#include <cstdint>

/// Work that does nothing but reach a limit of this machine: what a bench measures the ops
/// against. Each returns when it is done.
namespace deepinfer::kernels {

/// Reads `units` neighbouring pieces of `unit_bytes` (a multiple of 1 KiB), each `repeats` times
/// by one thread. Short pieces stay in a cache.
struct read_probe_args {
  const uint8_t* from;
  size_t unit_bytes;
  uint32_t units;
  uint32_t repeats;
};

/// `units` times `steps` steps of independent multiply-adds in registers.
struct multiply_probe_args {
  uint32_t units;
  uint64_t steps;
};

/// `regions` times a hand-over to one more thread and back: two units that wait for each other.
/// Nothing on a stream of one thread.
struct handover_probe_args {
  uint32_t regions;
};

struct cpu_probe {
  void (*read)(stream&, const read_probe_args&) = nullptr;
  void (*multiply)(stream&, const multiply_probe_args&) = nullptr;
  void (*handover)(stream&, const handover_probe_args&) = nullptr;
  uint64_t flops_of_step = 0;
};

[[nodiscard]] cpu_probe make_cpu_probe(cpu_isa isa);

}  // namespace deepinfer::kernels
