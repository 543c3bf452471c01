#include "storage/shared/shared_store.hpp"

#include "storage/block/block_checksum.hpp"
#include "storage/segment/segment_format.hpp"
#include "storage/segment/segment_store.hpp"

namespace deepinfer::storage {

namespace {

constexpr disk_options plain{.cache = disk_options::caching::page_cache,
                             .submit = disk_options::submission::calls};

}  // namespace

result<std::unique_ptr<block_store>> open_shared_store(const shared_store_options& options) {
  auto journal = open_rocks_journal(options.index_folder, options.index);
  if (!journal) return journal.error();
  auto files = disk_files::in(options.bytes_folder, plain);
  if (!files) return files.error();
  store_config store = options.store;
  // close-to-open consistency: others see what was synced
  if (store.durable == durability::process) store.durable = durability::index;
  return segment_store::open(store, std::move(*files), std::move(*journal));
}

result<void> read_shared_block(const std::string& bytes_folder,
                               const block_record& record,
                               std::span<std::byte> into) {
  if (into.size() < record.length)
    return failure{error_code::invalid_argument, "the buffer is shorter than the block"};
  auto files = disk_files::in(bytes_folder, plain);
  if (!files) return files.error();
  auto file = (*files)->open(segment_name(record.location.segment));
  if (!file) return file.error();
  const auto bytes = into.first(record.length);
  file_operation read{.what = file_operation::kind::read,
                      .file = file->get(),
                      .offset = record.location.offset,
                      .head = bytes};
  (*files)->run({&read, 1});
  if (read.result != file_operation::outcome::done)
    return failure{error_code::unreachable, "the file system did not answer"};
  if (read.transferred != record.length || block_checksum(record.key, bytes) != record.checksum)
    return failure{error_code::corrupt, "these are not the bytes of the block"};
  return {};
}

}  // namespace deepinfer::storage
