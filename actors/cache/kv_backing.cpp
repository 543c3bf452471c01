#include "actors/cache/kv_backing.hpp"

#include "storage/memory/memory_store.hpp"
#include "storage/rocks/rocks_store.hpp"
#include "storage/shared/shared_store.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

namespace deepinfer {
namespace {

constexpr uint64_t most_by_itself = uint64_t{64} << 30;
constexpr uint64_t least_segment_bytes = uint64_t{1} << 20;
constexpr uint64_t least_segments = 8;

/// A store and what must outlive it, ended in the right order.
struct held_store {
  std::optional<storage::store_folder> folder;
  std::optional<storage::memory_medium> medium;
  std::unique_ptr<storage::block_store> store;
};

std::shared_ptr<storage::block_store> hold(held_store made) {
  auto held = std::make_shared<held_store>(std::move(made));
  return {held, held->store.get()};
}

uint64_t bytes_in(const std::filesystem::path& folder) {
  uint64_t sum = 0;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator{folder, ignored}) {
    std::error_code no_size;
    const auto size = file.file_size(no_size);
    if (!no_size) sum += size;
  }
  return sum;
}

/// Half of what is free, its own blocks counted as free.
uint64_t half_of_disk(const std::string& segments) {
  std::error_code error;
  const auto space = std::filesystem::space(segments, error);
  if (error) return most_by_itself;
  return std::min((space.available + bytes_in(segments)) / 2, most_by_itself);
}

/// As set; else as chosen at the first start: a store's share of all groups is in proportion, and
/// groups would move at each start with what others have on that disk.
result<uint64_t> capacity_of(const kv_store_config& config,
                             const std::string& home,
                             kv_backing& backing) {
  if (config.capacity_bytes != 0) {
    if (auto gone = storage::forget_capacity(home); !gone) return gone.error();
    return config.capacity_bytes;
  }
  const auto kept = storage::read_capacity(home);
  if (kept) return std::max(*kept, config.store.segment_bytes);
  if (kept.error().code != error_code::not_found && kept.error().code != error_code::corrupt)
    return kept.error();
  const uint64_t chosen = std::max(half_of_disk(backing.folder), config.store.segment_bytes);
  if (kept.error().code == error_code::corrupt)
    backing.mended.push_back(kept.error().detail + ": the capacity is chosen anew, " +
                             std::to_string(chosen) + " bytes");
  if (auto written = storage::write_capacity(home, chosen); !written) return written.error();
  return chosen;
}

failure explained(const failure& why, const std::string& folder) {
  return {why.code, "the KV store in " + folder + " cannot be opened: " + why.detail +
                        ". Mend that, begin with an empty one (rm -r " + folder +
                        "; it holds a cache, nothing else), name another folder with --set "
                        "kvstore.path=DIR, or leave out the role kvstore"};
}

result<void> make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return failure{error_code::unreachable,
                   "cannot make the folder " + folder + ": " + error.message()};
  return {};
}

result<kv_backing> open_memory(const kv_store_config& config, const kv_backing_options& options) {
  kv_backing backing;
  backing.id = options.fresh_id;
  backing.replicas = config.replicas;
  backing.capacity_bytes = config.capacity_bytes != 0 ? config.capacity_bytes : uint64_t{256} << 20;
  held_store held;
  held.medium.emplace(options.fresh_id.lo);
  auto store = held.medium->open(store_settings(config, backing.capacity_bytes));
  if (!store) return store.error();
  held.store = *std::move(store);
  backing.store = hold(std::move(held));
  return backing;
}

storage::store_config with_epoch(storage::store_config made, uint64_t least_epoch) {
  made.least_epoch = least_epoch;
  return made;
}

/// Of a folder that is ours: `bytes` will hold the segments.
result<std::unique_ptr<storage::block_store>> open_folder(const kv_store_config& config,
                                                          const std::string& home,
                                                          uint64_t fresh_epoch,
                                                          kv_backing& backing) {
  std::error_code ignored;
  const bool known = std::filesystem::is_regular_file(home + "/index/CURRENT", ignored);
  const uint64_t least_epoch = known ? 0 : fresh_epoch;
  if (config.engine == "rocks") {
    backing.folder = home + "/segments";
    if (auto made = make_folder(backing.folder); !made) return made.error();
    const auto capacity = capacity_of(config, home, backing);
    if (!capacity) return capacity.error();
    backing.capacity_bytes = *capacity;
    return storage::open_rocks_store(
        {home, {}, {}, with_epoch(store_settings(config, backing.capacity_bytes), least_epoch)});
  }
  backing.folder = config.path + "/" + to_string(backing.id);
  backing.replicas = 1;  // redundancy belongs to that file system
  if (auto made = make_folder(backing.folder); !made) return made.error();
  const auto capacity = capacity_of(config, home, backing);
  if (!capacity) return capacity.error();
  backing.capacity_bytes = *capacity;
  return storage::open_shared_store(
      {backing.folder,
       home + "/index",
       {},
       with_epoch(store_settings(config, backing.capacity_bytes), least_epoch)});
}

}  // namespace

storage::store_config store_settings(const kv_store_config& config, uint64_t capacity_bytes) {
  storage::store_config made = config.store;
  made.capacity_bytes = capacity_bytes;
  // Space comes back by whole files, so that a small store has some of them, too.
  made.segment_bytes = std::min({made.segment_bytes, capacity_bytes,
                                 std::max(least_segment_bytes, capacity_bytes / least_segments)});
  made.durable = config.durability == "full"    ? storage::durability::full
                 : config.durability == "index" ? storage::durability::index
                                                : storage::durability::process;
  if (config.quota_bytes != 0) made.default_quota_bytes = config.quota_bytes;
  return made;
}

result<kv_backing> open_kv_backing(const kv_store_config& config,
                                   const kv_backing_options& options) {
  if (auto good = check_settings(config); !good) return good.error();
  if (config.engine == "memory") return open_memory(config, options);
  const std::string& named = config.engine == "shared" ? config.index_path : config.path;
  const std::string base = named.empty() ? options.default_base : named;
  if (base.empty())
    return failure{error_code::invalid_argument,
                   "no folder for the KV store: set HOME, XDG_CACHE_HOME or kvstore.path"};
  auto folder = storage::store_folder::claim(base, options.fresh_id);
  if (!folder) return explained(folder.error(), base);
  kv_backing backing;
  backing.id = folder->id();
  backing.mark = options.fresh_mark;
  backing.replicas = config.replicas;
  const std::string home = folder->path();
  if (!folder->mended().empty()) backing.mended.push_back(folder->mended());
  auto store = open_folder(config, home, options.fresh_epoch, backing);
  if (!store && store.error().code == error_code::corrupt) {
    // Without its index nobody knows what the blocks are: they go, and are computed again.
    const std::string why = store.error().detail;
    const auto aside = storage::set_aside(home + "/index");
    if (!aside) return explained(aside.error(), home);
    backing.mended.push_back("the index of the store was damaged and is set aside as " + *aside +
                             " (it may be removed): the store begins empty. " + why);
    store = open_folder(config, home, options.fresh_epoch, backing);
  }
  if (!store) return explained(store.error(), home);
  // Also beside the index, so that a check can tell whether the two belong together.
  for (const std::string& place : {backing.folder, home})
    if (auto marked = storage::write_mark(place, backing.mark); !marked)
      return explained(marked.error(), home);
  held_store held;
  held.folder.emplace(*std::move(folder));
  held.store = *std::move(store);
  backing.store = hold(std::move(held));
  return backing;
}

}  // namespace deepinfer
