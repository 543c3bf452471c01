#pragma once

#include "kernels/api/stream.hpp"
#include "kernels/api/table.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace deepinfer::kernels {

/// Instruction sets with code of their own. All give the same bits.
enum class cpu_isa : uint8_t {
  portable,
  avx2,    ///< with FMA and F16C
  avx512,  ///< F, BW, DQ, VL, VBMI
};

/// The last one that this machine can run.
[[nodiscard]] cpu_isa best_cpu_isa();
[[nodiscard]] const char* name_of(cpu_isa isa);

/// Fills every slot with the fp32 host version for `isa`, which this machine must be able to run.
void register_cpu(op_table& table, cpu_isa isa);

inline constexpr uint32_t most_device_threads = 256;

struct cpu_device_options {
  uint32_t threads = 1;  ///< the calling one included; 1..most_device_threads
  /// How long a thread without work stays awake, before it sleeps and costs nothing. Waking takes
  /// some 50 us, and a step has hundreds of ops.
  uint32_t spin_us = 50;
  size_t scratch_bytes = size_t{2} << 20;  ///< of each thread; at least 1 MiB
};

/// The host as a device: threads that share the work of one op, and their scratch memory. One
/// thread at a time may run ops on it.
class cpu_device;
struct cpu_device_deleter {
  void operator()(cpu_device* device) const;
};
using cpu_device_ptr = std::unique_ptr<cpu_device, cpu_device_deleter>;

/// Null when the system has no memory or threads left, or an option is out of range.
[[nodiscard]] cpu_device_ptr make_cpu_device(const cpu_device_options& options);

/// Its stream, for ops of `register_cpu`; valid while the device lives. A stream with a null
/// `native` runs them on the calling thread alone.
[[nodiscard]] stream stream_of(cpu_device& device);
[[nodiscard]] uint32_t threads_of(const cpu_device& device);

}  // namespace deepinfer::kernels
