#pragma once

#include <cstdint>

namespace deepinfer::kernels {

/// An ordered queue of ops on one device. Ops given the same stream run in that order; what they
/// wrote may be read after `op_table::sync`. The CPU backend runs every op at once.
struct stream {
  void* native = nullptr;  ///< owned by the backend; null for the CPU
};

enum class stream_status : uint8_t {
  ok = 0,
  device_failed = 1,  ///< nothing computed since the last sync can be trusted
};

}  // namespace deepinfer::kernels
