#pragma once

#include "kernels/api/stream.hpp"

#include <cstddef>
#include <cstdint>

namespace deepinfer::kernels::cpu {

/// Memory of one thread for the time of one call.
struct worker {
  uint32_t index = 0;            ///< below the device's number of threads
  std::byte* scratch = nullptr;  ///< 64-byte aligned
  size_t scratch_bytes = 0;      ///< >= scratch_minimum
};

inline constexpr size_t scratch_minimum = size_t{1} << 20;

/// What `parallel` hands over: no allocation, no virtual call.
struct parallel_region {
  void (*run)(const void* work, const worker& self, size_t first, size_t last);
  const void* work;
  size_t units;
  size_t grain;  // > 0
};

void run_parallel(stream& queue, const parallel_region& region);
[[nodiscard]] uint32_t thread_count(const stream& queue);

/// Calls work(worker, first, last) over pieces of [0, units) of at most `grain` units, on the
/// threads of the stream's device; returns when all are done. The calling thread takes part, and
/// takes all pieces when the others are asleep or elsewhere. Which thread takes which piece is
/// left to chance, so no result may depend on it. Work must not call `parallel` itself.
template <class Work>
void parallel(stream& queue, size_t units, size_t grain, const Work& work) {
  run_parallel(queue, {[](const void* context, const worker& self, size_t first, size_t last) {
                         (*static_cast<const Work*>(context))(self, first, last);
                       },
                       &work, units, grain});
}

}  // namespace deepinfer::kernels::cpu
