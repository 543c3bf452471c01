// Opening a store that has many records, and filling an index from it.
#include "actors/bench/kv_figures.hpp"
#include "actors/bench/kv_sample.hpp"
#include "storage/index/prefix_index.hpp"
#include "storage/rocks/rocks_store.hpp"
#include "storage/segment/segment_format.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>

namespace deepinfer::bench {
namespace {

using namespace storage;

constexpr size_t records_at_once = 4'096;
constexpr uint32_t chain_blocks = 602;

/// Records as their writers would have left them, in the order of time and not of keys. No bytes
/// and no contents: opening reads neither. The segment is a hole.
result<void> make_records(const std::string& folder, uint64_t blocks) {
  std::error_code error;
  std::filesystem::create_directories(folder + "/segments", error);
  const std::string segment = folder + "/segments/" + segment_name(1);
  const int file = ::open(segment.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  const auto bytes = static_cast<off_t>((blocks + 1) * location_unit);
  const bool made = file >= 0 && ::ftruncate(file, bytes) == 0;
  if (file >= 0) ::close(file);
  if (!made) return failure{error_code::unreachable, "cannot make " + segment};
  auto journal = open_rocks_journal(folder + "/index", {});
  if (!journal) return journal.error();
  if (auto empty = (*journal)->load([](const block_record&) {}); !empty) return empty.error();
  kv_random random{9};
  block_key parent;
  for (uint64_t i = 0; i < blocks;) {
    journal_batch step;
    for (; i < blocks && step.put.size() < records_at_once; ++i) {
      block_record r;
      r.key = {random.next(), random.next()};
      r.depth = static_cast<uint32_t>(i % chain_blocks);
      r.parent = r.depth == 0 ? block_key{7, 7} : parent;
      r.length = 4'000;
      r.location = {1, (i + 1) * location_unit};
      r.created = r.accessed = kv_moment().wall;
      r.expiry = kv_moment().wall + std::chrono::hours{i / chain_blocks % 60};
      r.state = block_state::committed;
      r.classes = mask_of(traffic_class::chat);
      parent = r.key;
      step.put.push_back(r);
    }
    if (auto done = (*journal)->apply(step, journal_wait::kernel); !done) return done;
  }
  return (*journal)->sync();
}

result<void> fill(prefix_index& index, block_store& store) {
  constexpr size_t page_blocks = 4'096;
  index.begin_snapshot();
  uint64_t cursor = 0;
  do {
    const auto page = store.snapshot(cursor, page_blocks);
    index.add_page(page);
    cursor = page.next_cursor;
  } while (cursor != 0);
  index.end_snapshot();
  return {};
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

result<std::vector<figure>> measure_kv_restart(const kv_plan& plan) {
  const std::string folder = plan.folder + "/deepinfer-bench-kv-restart";
  struct removed {
    const std::string& path;
    ~removed() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  } const afterwards{folder};
  if (auto made = make_records(folder, plan.restart_blocks); !made) return made.error();
  store_config config;
  config.capacity_bytes = uint64_t{1} << 42;
  config.segment_bytes = uint64_t{1} << 41;
  config.expected_blocks = plan.restart_blocks;
  std::vector<double> opened, ready, remote;
  for (size_t round = 0; round < plan.rounds; ++round) {
    auto begin = std::chrono::steady_clock::now();
    auto store = open_rocks_store({folder, {}, {}, config});
    if (!store) return store.error();
    opened.push_back(seconds_since(begin));
    prefix_index index{plan.restart_blocks};
    if (auto filled = fill(index, **store); !filled) return filled.error();
    ready.push_back(seconds_since(begin));
    if (index.stats().blocks != plan.restart_blocks)
      return failure{error_code::internal, "records are missing after a restart"};
    const auto far = time_remote_fill(**store, plan.restart_blocks);
    if (!far) return far.error();
    remote.push_back(*far);
  }
  return std::vector<figure>{
      make_figure("kv.restart.records", "blocks", {static_cast<double>(plan.restart_blocks)}),
      make_figure("kv.restart.store_opened", "s", opened),
      make_figure("kv.restart.index_filled", "s", ready),
      make_figure("kv.restart.remote_index_filled", "s", remote)};
}

}  // namespace deepinfer::bench
