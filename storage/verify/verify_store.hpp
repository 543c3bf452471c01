#pragma once

#include "proto/types/result.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace deepinfer::storage {

struct verify_options {
  std::string index_folder;
  std::string segments_folder;
  uint32_t group_blocks = 64;  ///< as the store was run with: where chains may begin
  /// Blocks verified so far, and all of them.
  std::function<void(uint64_t done, uint64_t all)> progress;
};

/// What was found. All is well when `wrong()` is zero.
struct verify_report {
  uint64_t blocks = 0, bytes = 0, scopes = 0, segments = 0;
  uint64_t unreadable_records = 0;  ///< fail their own checksum
  uint64_t broken_chains = 0;       ///< without the parent they need
  uint64_t wrong_contents = 0;      ///< missing, damaged, or not those of the key
  uint64_t wrong_bytes = 0;         ///< fail the block's checksum, or are not where they should be
  std::vector<std::string> first_problems;  ///< in words

  [[nodiscard]] uint64_t wrong() const {
    return unreadable_records + broken_chains + wrong_contents + wrong_bytes;
  }
};

/// Reads everything and writes nothing. A failure means that it could not be looked at.
[[nodiscard]] result<verify_report> verify_store(const verify_options& options);

}  // namespace deepinfer::storage
