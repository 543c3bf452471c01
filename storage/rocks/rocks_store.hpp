#pragma once

#include "storage/block_store.hpp"
#include "storage/rocks/rocks_journal.hpp"
#include "storage/segment/disk_files.hpp"
#include "storage/store_config.hpp"

#include <memory>
#include <string>

namespace deepinfer::storage {

struct rocks_store_options {
  std::string folder;  ///< `index/` and `segments/` are made in it
  disk_options disk;
  rocks_options index;
  store_config store;
};

/// The embedded store: segment files and RocksDB in one folder of a local disk. One process at a
/// time (RocksDB holds the lock).
[[nodiscard]] result<std::unique_ptr<block_store>> open_rocks_store(
    const rocks_store_options& options);

}  // namespace deepinfer::storage
