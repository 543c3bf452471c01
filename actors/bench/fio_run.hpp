#pragma once

#include "proto/types/result.hpp"

#include <cstdint>
#include <string>

namespace deepinfer::bench {

/// One pass of `fio`, the disk tester of the same name, over one file.
struct fio_job {
  enum class order : uint8_t { append, random_write, random_read };
  std::string file;
  order what = order::random_read;
  uint32_t blocks = 0;
  uint64_t block_bytes = 0;
  uint32_t queue_depth = 1;
  uint32_t sync_every = 0;  ///< blocks written between two syncs
  bool direct = false;
  bool ring = true;  ///< io_uring, else plain calls one at a time
};

/// True when the program is installed (Debian package `fio`).
[[nodiscard]] bool fio_installed();

/// Blocks a second, start of the program not counted.
[[nodiscard]] result<double> run_fio(const fio_job& job);

}  // namespace deepinfer::bench
