#pragma once

#include "proto/types/result.hpp"

#include <cstdint>
#include <limits>
#include <string>

/// How much shared memory for blocks there may be.
namespace deepinfer {

struct memory_limits {
  static constexpr uint64_t none = std::numeric_limits<uint64_t>::max();
  uint64_t machine = none;  ///< its memory, or what the container may have of it
  uint64_t file = none;     ///< longest file; shared memory is one
  uint64_t space = none;    ///< addresses of a process
};

/// Of this process. `root` is where /proc and /sys are; another folder in tests.
[[nodiscard]] memory_limits read_memory_limits(const std::string& root = "");

/// `kvfetch.arena_bytes` as it is used. 0: a sixteenth of the machine, 16 MiB to 1 GiB, and no more
/// than the limits of a process allow. What somebody wrote down is taken or refused: `too_large`
/// over half of the machine, or over a limit.
[[nodiscard]] result<uint64_t> arena_size(uint64_t wanted, const memory_limits& limits);

}  // namespace deepinfer
