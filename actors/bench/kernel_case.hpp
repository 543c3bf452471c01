#pragma once

#include "kernels/api/cpu_device.hpp"
#include "kernels/api/cpu_probe.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace deepinfer::bench {

/// One line of `deepinfer bench kernels` per number of threads: how long an op takes, and which
/// share of the machine's limits that is.
struct kernel_case {
  std::string name;
  double bytes = 0;  ///< that a call must read from memory; 0: its data fit the caches
  double flops = 0;  ///< that a call must compute
  /// One call; `turn` counts them, for those that must not find their data in a cache.
  std::function<void(kernels::stream&, size_t turn)> run;
  /// The same by the reference in double, on one thread; empty: not compared.
  std::function<void()> naive = {};
};

/// What the cases work on.
struct kernel_world {
  kernels::op_table ops;
  kernels::op_table reference;
  std::vector<uint8_t> codes;   ///< random, larger than the caches; no E4M3 NaN among them
  std::vector<uint8_t> scales;  ///< UE8M0 of ordinary weights
  std::vector<float> inputs;    ///< random, -1 to 1
  std::vector<float> outputs;
};

/// Products with weights of the released model's shapes.
void add_linear_cases(kernel_world& world, std::vector<kernel_case>& out);
/// Attention, index scores, selection and sampling.
void add_sparse_cases(kernel_world& world, std::vector<kernel_case>& out);
/// Ops that pass over rows: norms, turns, hyper-connections, gates, storage formats.
void add_row_cases(kernel_world& world, std::vector<kernel_case>& out);

}  // namespace deepinfer::bench
