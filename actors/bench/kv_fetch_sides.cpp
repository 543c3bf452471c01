#include "actors/bench/kv_fetch_sides.hpp"

#include "actors/bench/bench_node.hpp"
#include "actors/bench/kv_sample.hpp"
#include "actors/cache/fetch_io.hpp"
#include "actors/cache/kv_fetch.hpp"
#include "actors/cache/kv_io.hpp"
#include "actors/cache/kv_store.hpp"
#include "runtime/net/fabric/fabric_transport.hpp"
#include "storage/block/block_checksum.hpp"
#include "storage/segment/disk_files.hpp"

#include <caf/send.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <sstream>
#include <thread>

namespace deepinfer::bench {
namespace {

using steady = std::chrono::steady_clock;

constexpr uint32_t group_blocks = 64;
constexpr uint32_t filled_at_once = 64;
constexpr std::chrono::seconds patience{30};
const kv_store_config store_defaults;
const fetch_config fetch_defaults;

failure bad(const char* what) {
  return {error_code::internal, what};
}

/// A store needs a clock that goes on, not one that is right.
std::chrono::milliseconds wall_now() {
  return kv_moment().wall +
         std::chrono::duration_cast<std::chrono::milliseconds>(steady::now().time_since_epoch());
}

void wait_for_end_of_input() {
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

// ---- the store

result<void> put(storage::block_store& store,
                 const kv_chain& chain,
                 uint32_t from,
                 const std::vector<std::vector<std::byte>>& bytes,
                 const storage::clock_reading& now) {
  std::vector<storage::block_content> contents;
  std::vector<storage::reserve_item> items;
  const uint32_t to = std::min(from + filled_at_once, static_cast<uint32_t>(chain.keys.size()));
  for (uint32_t i = from; i < to; ++i) contents.push_back(chain.content(i));
  for (uint32_t i = from; i < to; ++i)
    items.push_back({chain.keys[i], i == 0 ? chain.root : chain.keys[i - 1], i, kv_block_bytes,
                     contents[i - from]});
  const auto got =
      store.reserve({storage::scope_id{1}, {1, 1}, storage::traffic_class::chat, now}, items);
  if (!got) return got.error();
  std::vector<storage::write_item> writes;
  std::vector<storage::commit_item> commits;
  for (uint32_t i = from; i < to; ++i) {
    writes.push_back({(*got)[i - from].ticket, bytes[i - from]});
    commits.push_back(
        {(*got)[i - from].ticket, storage::block_checksum(chain.keys[i], bytes[i - from])});
  }
  if (const auto written = store.write(writes, now); !written) return written.error();
  const auto stored = store.commit(commits, now);
  if (!stored) return stored.error();
  for (const auto outcome : *stored)
    if (outcome != storage::commit_outcome::stored) return bad("a block was not stored");
  return {};
}

result<kv_backing> filled_store(const fetch_sample& sample) {
  kv_store_config config;
  config.path = sample.folder;
  config.capacity_bytes =
      uint64_t{2} * sample.prompts * sample.blocks * kv_block_bytes + (uint64_t{1} << 30);
  auto backing = open_kv_backing(config, {{}, {1, 2}, {3, 4}});
  if (!backing) return backing.error();
  const auto bytes = kv_bytes(filled_at_once);
  const storage::clock_reading now{
      wall_now(),
      std::chrono::duration_cast<std::chrono::milliseconds>(steady::now().time_since_epoch())};
  for (uint32_t p = 0; p < sample.prompts; ++p) {
    const kv_chain chain = make_kv_chain(kv_tokens(p, sample.blocks));
    for (uint32_t at = 0; at < sample.blocks; at += filled_at_once)
      if (const auto done = put(*backing->store, chain, at, bytes, now); !done) return done.error();
  }
  return backing;
}

result<void> serve_store(const fetch_sample& sample) {
  auto backing = filled_store(sample);
  if (!backing) return backing.error();
  auto node = bench_node::make();
  if (!node) return node.error();
  std::vector<std::byte> plain(size_t{sample.blocks} * kv_block_bytes, std::byte{7});
  const auto region = (*node)->transport().register_memory(plain);
  if (!region) return region.error();
  kv_store_setup setup;
  setup.backing = *backing;
  if (sample.by == fetch_sample::way::peer) setup.backing.folder.clear();
  setup.hub = &(*node)->hub();
  setup.transport = &(*node)->transport();
  setup.wall = wall_now;
  setup.spawn_io = [node = node->get()] {
    return node->system().spawn<caf::detached>(kv_io, std::cref(node->hub()));
  };
  const auto made = (*node)->system().spawn(kv_store, setup);
  if (auto ok = (*node)->hub().publish(bench_store_number, kv_store_actor{made}); !ok) return ok;
  const node_id self = (*node)->transport().self();
  std::printf("%s %llu %llu %llu\n", (*node)->transport().address().c_str(),
              static_cast<unsigned long long>(self.hi), static_cast<unsigned long long>(self.lo),
              static_cast<unsigned long long>(region->key));
  std::fflush(stdout);
  wait_for_end_of_input();
  caf::anon_send_exit(made, caf::exit_reason::user_shutdown);
  (*node)->transport().stop();
  return {};
}

// ---- the fetching process

/// As many reads at a time as a kv_fetch has blocks under way at one store.
class raw_reader {
public:
  raw_reader(net::transport& transport, const store_place& from, uint32_t blocks)
      : transport_(transport),
        from_(from),
        blocks_(blocks),
        memory_(size_t{blocks} * kv_block_bytes, std::byte{1}) {}

  result<double> seconds() {
    posted_ = ended_ = 0;
    failed_ = false;
    const auto begun = steady::now();
    transport_.post([this] {
      const uint32_t most = fetch_defaults.batch_blocks * fetch_defaults.reads_per_store;
      for (uint32_t i = 0; i < std::min(most, blocks_); ++i) next();
    });
    std::unique_lock lock{mutex_};
    if (!changed_.wait_for(lock, patience, [this] { return ended_ == blocks_; }))
      return failure{error_code::deadline_exceeded, "reads do not end"};
    if (failed_) return bad("a read failed");
    return std::chrono::duration<double>(steady::now() - begun).count();
  }

private:
  void next() {
    if (posted_ == blocks_) return;
    const uint64_t offset = uint64_t{posted_++} * kv_block_bytes;
    transport_.read({from_.hi, from_.lo}, {from_.region, offset, kv_block_bytes},
                    std::span{memory_}.subspan(offset, kv_block_bytes), patience,
                    [this](const result<void>& how) {
                      next();
                      const std::lock_guard lock{mutex_};
                      failed_ = failed_ || !how;
                      if (++ended_ == blocks_) changed_.notify_all();
                    });
  }

  net::transport& transport_;
  store_place from_;
  uint32_t blocks_;
  std::vector<std::byte> memory_;  // touched
  uint32_t posted_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t ended_ = 0;
  bool failed_ = false;
};

/// Reads as many bytes of the store's files as a prompt has, with as many threads and in pieces as
/// long as a kv_fetch does.
class file_reader {
public:
  file_reader(const std::string& folder, uint32_t blocks) : blocks_(blocks) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, ignored))
      if (entry.path().string().find("/segments/") != std::string::npos &&
          entry.path().filename() != "mark" && entry.is_regular_file(ignored))
        paths_.push_back(entry.path());
    std::sort(paths_.begin(), paths_.end());
  }

  /// Of the bytes at this place of all files together, where prompt `number` lies.
  result<double> seconds(uint32_t number) {
    const uint64_t piece = uint64_t{fetch_defaults.batch_blocks} * stride;
    const uint64_t first = uint64_t{number} * blocks_ * stride;
    const uint64_t bytes = uint64_t{blocks_} * stride;
    memory_.resize(bytes);
    std::atomic<uint64_t> next{0};
    std::atomic<bool> failed{false};
    const auto begun = steady::now();
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < fetch_defaults.io_threads; ++t)
      threads.emplace_back([&] {
        for (uint64_t at = next.fetch_add(piece); at < bytes; at = next.fetch_add(piece))
          if (!read(first + at, std::span{memory_}.subspan(at, std::min(piece, bytes - at))))
            failed = true;
      });
    for (std::thread& t : threads) t.join();
    if (failed) return bad("the files are not as long as they should be");
    return std::chrono::duration<double>(steady::now() - begun).count();
  }

private:
  static constexpr uint64_t stride = kv_block_bytes;

  [[nodiscard]] bool read(uint64_t at, std::span<std::byte> into) const {
    for (const auto& path : paths_) {
      const uint64_t length = std::filesystem::file_size(path);
      if (at >= length) {
        at -= length;
        continue;
      }
      const auto part = into.first(std::min<uint64_t>(into.size(), length - at));
      const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      const ssize_t got =
          file < 0 ? -1 : ::pread(file, part.data(), part.size(), static_cast<off_t>(at));
      if (file >= 0) ::close(file);
      if (got != static_cast<ssize_t>(part.size())) return false;
      into = into.subspan(part.size());
      if (into.empty()) return true;
      at = 0;
    }
    return false;
  }

  uint32_t blocks_;
  std::vector<std::filesystem::path> paths_;
  std::vector<std::byte> memory_;
};

result<void> serve_fetch(const fetch_sample& sample, const store_place& store) {
  auto node = bench_node::make();
  if (!node) return node.error();
  if (auto met = (*node)->meet(store.address, {store.hi, store.lo}); !met) return met;
  fetch_setup setup;
  setup.hub = &(*node)->hub();
  setup.transport = &(*node)->transport();
  // Two prompts fit: the third takes pages that were touched before, as in a process that has run.
  auto memory =
      storage::shared_memory::make(uint64_t{2} * sample.blocks * (kv_block_bytes + 4096), 1);
  if (!memory) return memory.error();
  setup.memory = *std::move(memory);
  setup.spawn_io = [node = node->get()] {
    return node->system().spawn<caf::detached>(fetch_io, std::cref(node->hub()));
  };
  const auto made = (*node)->system().spawn(kv_fetch, setup);
  if (auto ok = (*node)->hub().publish(bench_fetch_number, kv_fetch_actor{made}); !ok) return ok;
  const node_id self = (*node)->transport().self();
  std::printf("%s %llu %llu\n", (*node)->transport().address().c_str(),
              static_cast<unsigned long long>(self.hi), static_cast<unsigned long long>(self.lo));
  std::fflush(stdout);
  raw_reader raw{(*node)->transport(), store, sample.blocks};
  file_reader files{sample.folder, sample.blocks};
  std::array<char, 64> line{};
  while (std::fgets(line.data(), line.size(), stdin) != nullptr) {
    std::istringstream words{line.data()};
    std::string what;
    uint32_t number = 0;
    words >> what >> number;
    const auto took = what == "raw" ? raw.seconds() : files.seconds(number);
    if (!took) return took.error();
    std::printf("%.9f\n", *took);
    std::fflush(stdout);
  }
  caf::anon_send_exit(made, caf::exit_reason::user_shutdown);
  (*node)->transport().stop();
  return {};
}

}  // namespace

std::string store_words(const fetch_sample& sample) {
  std::ostringstream out;
  out << "store " << (sample.by == fetch_sample::way::peer ? "peer" : "files") << ' '
      << sample.prompts << ' ' << sample.blocks << ' ' << sample.folder;
  return out.str();
}

std::string fetch_words(const fetch_sample& sample, const std::string& store_line) {
  return "fetch" + store_words(sample).substr(5) + " " + store_line;
}

store_place read_store_place(const std::string& line) {
  store_place out;
  std::istringstream words{line};
  words >> out.address >> out.hi >> out.lo >> out.region;
  return out;
}

result<void> serve_fetch_side(const std::string& words) {
  net::choose_provider("tcp");
  std::istringstream in{words};
  std::string side, way, rest;
  fetch_sample sample;
  in >> side >> way >> sample.prompts >> sample.blocks >> sample.folder;
  if (way == "files") sample.by = fetch_sample::way::files;
  std::getline(in, rest);
  if (side == "store") return serve_store(sample);
  return serve_fetch(sample, read_store_place(rest));
}

}  // namespace deepinfer::bench
