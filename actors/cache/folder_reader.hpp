#pragma once

#include "actors/cache/fetch_types.hpp"
#include "storage/segment/disk_files.hpp"

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace deepinfer {

/// A batch whose blocks are read from the files of a store that this machine has mounted too.
struct file_batch {
  std::string folder;
  storage::block_key mark;  ///< what the folder's file `mark` must say
  std::vector<storage::block_key> keys;
  std::vector<fetch::opened::place> places;
  std::vector<fetch::run> runs;
  std::vector<uint64_t> offsets;  ///< of each block in `arena`
};

/// Reads stores' segment files. Any thread; each call waits for the device, and for its own folder
/// only: no lock is held over a system call that may hang.
class folder_reader {
public:
  static constexpr size_t most_folders = 8;
  static constexpr size_t most_files = 64;  ///< kept open per folder

  explicit folder_reader(const storage::disk_options& options) : options_(options) {}

  /// Reads and verifies; one outcome per block. All `absent` when the folder is not the store's.
  std::vector<fetch::block_done> read(const file_batch& batch, std::span<std::byte> arena);
  /// Files that were removed give their space back only when nobody has them open.
  void close_idle();

private:
  struct open_folder {
    std::string path;
    storage::block_key mark;
    std::unique_ptr<storage::disk_files> files;
    std::mutex mutex;
    std::map<uint32_t, std::shared_ptr<storage::stored_file>> segments;
  };

  std::shared_ptr<open_folder> find(const file_batch& batch);
  std::shared_ptr<open_folder> known(const file_batch& batch);
  static std::shared_ptr<storage::stored_file> segment(open_folder& folder, uint32_t number);

  storage::disk_options options_;
  std::mutex mutex_;
  std::list<std::shared_ptr<open_folder>> folders_;  // last used first
};

/// Whether these are the block's bytes.
[[nodiscard]] fetch::block_done verified(const storage::block_key& key,
                                         std::span<const std::byte> bytes,
                                         uint64_t checksum);

}  // namespace deepinfer
