#include "storage/rocks/rocks_store.hpp"

#include "storage/segment/segment_store.hpp"

namespace deepinfer::storage {

result<std::unique_ptr<block_store>> open_rocks_store(const rocks_store_options& options) {
  // the index first: its lock says that nobody else writes these segments
  auto journal = open_rocks_journal(options.folder + "/index", options.index);
  if (!journal) return journal.error();
  auto files = disk_files::in(options.folder + "/segments", options.disk);
  if (!files) return files.error();
  return segment_store::open(options.store, std::move(*files), std::move(*journal));
}

}  // namespace deepinfer::storage
