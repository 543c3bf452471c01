#pragma once

#include "kernels/api/stream.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace deepinfer::kernels::cpu {

/// Memory of one thread for the time of one call.
struct worker {
  uint32_t index = 0;  ///< below the device's number of threads
  std::byte* scratch = nullptr;  ///< 64-byte aligned
  size_t scratch_bytes = 0;      ///< >= scratch_minimum
};

inline constexpr size_t scratch_minimum = size_t{1} << 20;

/// The calling thread's own worker, for streams without a device.
[[nodiscard]] worker own_worker();

/// Calls work(worker, first, last) over pieces of [0, units) of at most `grain` units, on the
/// threads of the stream's device; returns when all are done. Which thread takes which piece is
/// left to chance, so no result may depend on it.
template <class Work>
void parallel(stream&, size_t units, size_t grain, const Work& work) {
  const worker self = own_worker();
  for (size_t first = 0; first < units; first += grain)
    work(self, first, std::min(units, first + grain));
}

}  // namespace deepinfer::kernels::cpu
