#pragma once

#include "storage/metadata_journal.hpp"

#include <memory>
#include <string>

namespace deepinfer::storage {

struct rocks_options {
  uint64_t write_buffer_bytes = uint64_t{32} << 20;  ///< of each column family
  uint64_t cache_bytes = uint64_t{64} << 20;         ///< of contents that were read
  int background_threads = 2;
  uint64_t erase_part_bytes = uint64_t{128} << 20;  ///< of files that one part of erasing rewrites
  enum class access_mode : uint8_t { own, read };
  access_mode access = access_mode::own;  ///< read: nothing is written, not even what is mended
  enum class log_damage : uint8_t { cut, refused };
  log_damage damaged_log = log_damage::cut;  ///< cut: what is behind the damage is lost
};

/// Records in RocksDB: column families for records, contents and the store itself. The only place
/// that knows RocksDB.
[[nodiscard]] result<std::unique_ptr<metadata_journal>> open_rocks_journal(
    const std::string& folder, const rocks_options& options);

/// Reads every file of the database, the log without mercy; writes nothing. `corrupt` names what is
/// damaged.
[[nodiscard]] result<void> verify_rocks_files(const std::string& folder);

}  // namespace deepinfer::storage
