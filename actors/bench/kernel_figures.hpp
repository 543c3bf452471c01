#pragma once

#include "actors/bench/figure.hpp"
#include "proto/types/result.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace deepinfer::bench {

struct kernel_plan {
  size_t rounds = 7;
  size_t memory_bytes = size_t{256} << 20;  ///< to read the weights from; beyond every cache
  std::chrono::microseconds least{5000};    ///< of one measurement; calls are repeated up to it
  uint32_t threads = 2;                     ///< measured beside one thread; 1: not
  std::string only;                         ///< cases whose name has it in it; empty: all
};

/// First what this machine can do (reading, multiply-adds, hand-over), then every op: its time and
/// its share of the roofline, which is the larger of bytes / bandwidth and flops / peak. Figures of
/// one thread are processor time, the others wall time.
[[nodiscard]] result<std::vector<figure>> measure_kernel_figures(const kernel_plan& plan);

}  // namespace deepinfer::bench
