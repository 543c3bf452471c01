#pragma once

#include "storage/block_store.hpp"
#include "storage/rocks/rocks_journal.hpp"
#include "storage/segment/disk_files.hpp"
#include "storage/store_config.hpp"

#include <memory>
#include <string>

namespace deepinfer::storage {

struct shared_store_options {
  /// On any mounted file system: 3FS, CephFS, Lustre, NFS, local. This store's own: one writer.
  std::string bytes_folder;
  std::string index_folder;  ///< local to the process that owns this shard
  rocks_options index;
  store_config store;
};

/// Bytes on a file system that many machines mount, records in a database of the one that owns the
/// shard. Redundancy belongs to the file system. Uses nothing that a network file system may lack:
/// no direct I/O, no rings, no locks, no appending by two; names are made before they are used and
/// files are synced before the index names their bytes.
[[nodiscard]] result<std::unique_ptr<block_store>> open_shared_store(
    const shared_store_options& options);

/// Reads a block without the store: by path, as another machine does that was told the place. The
/// bytes are verified; `corrupt` if they are not the block's, `not_found` if the file is gone.
[[nodiscard]] result<void> read_shared_block(const std::string& bytes_folder,
                                             const block_record& record,
                                             std::span<std::byte> into);

}  // namespace deepinfer::storage
