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
  std::string home;            ///< with the files id and mark; empty: those are not looked at
  /// Blocks verified so far, and all of them.
  std::function<void(uint64_t done, uint64_t all)> progress;
};

/// What was found. All is well when `wrong()` is zero.
struct verify_report {
  uint64_t blocks = 0, bytes = 0, scopes = 0, segments = 0;
  uint64_t unnamed_files = 0;       ///< that no record names: not wrong, gone with the next opening
  uint64_t wrong_names = 0;         ///< files that say whose this is: damaged, missing, of another
  uint64_t damaged_index = 0;       ///< files of the index, its log, its own record
  uint64_t unreadable_records = 0;  ///< fail their own checksum
  uint64_t broken_chains = 0;       ///< without the parent they need
  uint64_t wrong_contents = 0;      ///< missing, damaged, or not those of the key
  uint64_t misplaced = 0;           ///< records of places that no block can have, or two have
  uint64_t wrong_bytes = 0;         ///< fail the block's checksum, or are not where they should be
  uint64_t wrong_frames = 0;        ///< headers of files and footers of blocks
  std::vector<std::string> first_problems;  ///< in words

  [[nodiscard]] uint64_t wrong() const {
    return wrong_names + damaged_index + unreadable_records + broken_chains + wrong_contents +
           misplaced + wrong_bytes + wrong_frames;
  }
};

/// Reads everything and writes nothing. A failure means that it could not be looked at.
[[nodiscard]] result<verify_report> verify_store(const verify_options& options);

}  // namespace deepinfer::storage
