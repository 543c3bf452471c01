#include "actors/cache/folder_reader.hpp"

#include "storage/block/block_checksum.hpp"
#include "storage/segment/segment_format.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace deepinfer {

using fetch::block_done;
using fetch::outcome;

namespace {

/// What the file `mark` says: 32 hex digits. Zero when there is none; the folder is not touched,
/// since it may be another one of the same name.
storage::block_key mark_of(const std::string& folder) {
  const int file = ::open((folder + "/mark").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return {};
  std::array<char, 32> text{};
  const ssize_t got = ::pread(file, text.data(), text.size(), 0);
  ::close(file);
  if (got != static_cast<ssize_t>(text.size())) return {};
  const auto mark = storage::parse_block_key({text.data(), text.size()});
  return mark ? *mark : storage::block_key{};
}

}  // namespace

block_done verified(const storage::block_key& key,
                    std::span<const std::byte> bytes,
                    uint64_t checksum) {
  if (storage::block_checksum(key, bytes) != checksum) return {outcome::bad, 0, 0};
  return {outcome::ok, static_cast<uint32_t>(bytes.size()), checksum};
}

std::shared_ptr<folder_reader::open_folder> folder_reader::known(const file_batch& batch) {
  const std::lock_guard lock{mutex_};
  const auto found = std::find_if(folders_.begin(), folders_.end(), [&](const auto& one) {
    return one->path == batch.folder && one->mark == batch.mark;
  });
  if (found == folders_.end()) return nullptr;
  folders_.splice(folders_.begin(), folders_, found);
  return folders_.front();
}

std::shared_ptr<folder_reader::open_folder> folder_reader::find(const file_batch& batch) {
  if (auto had = known(batch)) return had;
  if (!batch.mark || mark_of(batch.folder) != batch.mark) return nullptr;
  auto files = storage::disk_files::in(batch.folder, options_);
  if (!files) return nullptr;
  auto made = std::make_shared<open_folder>();
  made->path = batch.folder;
  made->mark = batch.mark;
  made->files = *std::move(files);
  if (auto meanwhile = known(batch)) return meanwhile;
  const std::lock_guard lock{mutex_};
  folders_.push_front(made);  // twice, if two were that close: the older one goes unused
  if (folders_.size() > most_folders) folders_.pop_back();
  return made;
}

std::shared_ptr<storage::stored_file> folder_reader::segment(open_folder& folder, uint32_t number) {
  {
    const std::lock_guard lock{folder.mutex};
    const auto known = folder.segments.find(number);
    if (known != folder.segments.end()) return known->second;
  }
  auto opened = folder.files->open(storage::segment_name(number));
  if (!opened) return nullptr;
  const std::lock_guard lock{folder.mutex};
  if (folder.segments.size() >= most_files) folder.segments.erase(folder.segments.begin());
  return folder.segments.emplace(number, *opened).first->second;
}

std::vector<block_done> folder_reader::read(const file_batch& batch, std::span<std::byte> arena) {
  std::vector<block_done> done(batch.keys.size(), block_done{outcome::absent, 0, 0});
  const auto folder = find(batch);
  if (!folder) return done;
  std::vector<storage::file_operation> operations;
  std::vector<std::shared_ptr<storage::stored_file>> files;
  std::vector<const fetch::run*> runs;
  for (const fetch::run& r : batch.runs) {
    auto file = segment(*folder, batch.places[r.first].at.segment);
    if (!file) continue;
    storage::file_operation one;
    one.file = file.get();
    one.offset = r.from;
    one.head = arena.subspan(r.into, r.bytes);
    operations.push_back(one);
    files.push_back(std::move(file));
    runs.push_back(&r);
  }
  folder->files->run(operations);
  for (size_t at = 0; at < operations.size(); ++at) {
    const bool whole = operations[at].result == storage::file_operation::outcome::done &&
                       operations[at].transferred >= runs[at]->bytes;
    for (uint32_t i = runs[at]->first; i < runs[at]->first + runs[at]->count; ++i)
      done[i] =
          whole ? verified(batch.keys[i], arena.subspan(batch.offsets[i], batch.places[i].length),
                           batch.places[i].checksum)
                : block_done{outcome::failed, 0, 0};
  }
  return done;
}

void folder_reader::close_idle() {
  const std::lock_guard lock{mutex_};
  folders_.clear();  // who reads at this moment holds what it needs
}

}  // namespace deepinfer
