// Stores by themselves: hash chain, index, segment files against the bare disk and against values
// in RocksDB. One JSON line a figure. `storage_bench FOLDER [cached|direct] [BLOCKS]` measures in
// FOLDER; `storage_bench index [BLOCKS]` and `storage_bench restart FOLDER [BLOCKS]` what is big.
#include "storage/block/block_checksum.hpp"
#include "storage/catalog/catalogue.hpp"
#include "storage/index/prefix_index.hpp"
#include "storage/rocks/rocks_store.hpp"
#include "storage/segment/segment_format.hpp"
#include "tests/bench/bench_line.hpp"
#include "tests/support/rng.hpp"

#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>

namespace {

using namespace deepinfer;
using namespace deepinfer::storage;
using bench_clock = std::chrono::steady_clock;

constexpr uint32_t block_bytes = 113'920;
constexpr uint32_t block_tokens = 128;
constexpr uint32_t prompt_blocks = 602;
constexpr uint32_t batch = 256;
constexpr uint32_t depth = 16;
constexpr int runs = 5;

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "storage_bench: %s\n", why.c_str());
  std::exit(1);
}

template <class T>
T must(result<T> r, const char* what) {
  if (!r) give_up(std::string(what) + ": " + to_string(r.error()));
  return std::move(*r);
}

template <class Work>
double seconds(const Work& work) {
  const auto begin = bench_clock::now();
  work();
  return std::chrono::duration<double>(bench_clock::now() - begin).count();
}

clock_reading now() {
  return {std::chrono::hours{500'000}, std::chrono::seconds{1}};
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

// ---- hashing and matching

std::vector<int32_t> some_tokens(uint64_t seed, size_t count) {
  test::rng random{seed};
  std::vector<int32_t> tokens(count);
  for (auto& t : tokens) t = static_cast<int32_t>(random.below(129'280));
  return tokens;
}

void bench_hash() {
  const auto tokens = some_tokens(1, prompt_blocks * block_tokens);
  std::vector<double> chain, checksum;
  const std::vector<std::byte> block(block_bytes, std::byte{7});
  uint64_t sum = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<block_key> keys;
    chain.push_back(1e6 * seconds([&] {
                      chain_hasher hasher{{1, 2}, block_tokens};
                      if (!hasher.append(tokens, {}, keys)) give_up("hash");
                    }));
    checksum.push_back(1e6 * seconds([&] { sum += block_checksum(keys[0], block); }));
  }
  if (sum == 1) give_up("never");
  bench::print_line("storage.hash_602_blocks", bench::summarize(chain), "us");
  bench::print_line("storage.checksum_block", bench::summarize(checksum), "us");
}

/// `blocks` keys, among them those of many prompts; each prompt is matched once, so that neither
/// its keys nor their entries are in a cache.
void bench_index(uint64_t blocks) {
  constexpr uint64_t prompts = 2'000;
  if (blocks < prompts * prompt_blocks) give_up("at least 1204000 blocks");
  const auto tokens_of = [](uint64_t prompt) {
    return some_tokens(prompt, prompt_blocks * block_tokens);
  };
  const auto hashed = [](const std::vector<int32_t>& tokens) {
    std::vector<block_key> keys;
    chain_hasher hasher{{1, 2}, block_tokens};
    if (!hasher.append(tokens, {}, keys)) give_up("hash");
    return keys;
  };
  prefix_index index{blocks};
  test::rng random{3};
  index.begin_snapshot();
  snapshot_page page;
  page.position = {1, 1};
  const uint64_t others = blocks / prompts - prompt_blocks;
  const double fill = seconds([&] {
    for (uint64_t prompt = 0; prompt < prompts; ++prompt) {
      page.blocks.clear();
      const auto tokens = tokens_of(prompt);
      const auto keys = hashed(tokens);
      for (uint32_t i = 0; i < prompt_blocks; ++i) {
        const auto part = std::span{tokens}.subspan(i * block_tokens, block_tokens);
        page.blocks.push_back({.key = keys[i],
                               .depth = i,
                               .content_digest = content_digest(content_of(part, i, {}))});
      }
      for (uint64_t i = 0; i < others; ++i)
        page.blocks.push_back({.key = {random.next(), random.next()}, .depth = 5});
      index.add_page(page);
    }
    index.end_snapshot();
  });
  std::vector<double> with_hash, alone;
  for (uint64_t i = 0; i < prompts; ++i) {
    const auto tokens = tokens_of(i * 7 % prompts);
    std::vector<block_key> keys;
    const double hashing = 1e6 * seconds([&] { keys = hashed(tokens); });
    const double matching = 1e6 * seconds([&] {
                              if (index.match({keys, tokens, {}}).blocks != prompt_blocks)
                                give_up("no match");
                            });
    with_hash.push_back(hashing + matching);
    alone.push_back(matching);
  }
  const auto line = [](const char* name, double value, const char* unit) {
    bench::print_line(name, {value, 0, 1}, unit);
  };
  const auto stats = index.stats();
  line("storage.index.blocks", static_cast<double>(stats.blocks), "blocks");
  line("storage.index.memory",
       static_cast<double>(stats.memory_bytes) / static_cast<double>(stats.blocks), "B/block");
  line("storage.index.fill", fill, "s");
  line("storage.index.match_602_p50", quantile(alone, 0.5), "us");
  line("storage.index.match_602_p99", quantile(alone, 0.99), "us");
  line("storage.index.match_602_with_hash_p50", quantile(with_hash, 0.5), "us");
  line("storage.index.match_602_with_hash_p99", quantile(with_hash, 0.99), "us");
}

// ---- a restart over many records

void make_records(const std::string& folder, uint64_t blocks) {
  auto journal = must(open_rocks_journal(folder + "/index", {}), "journal");
  if (!journal->load([](const block_record&) {})) give_up("load");
  std::filesystem::create_directories(folder + "/segments");
  const std::string segment = folder + "/segments/" + segment_name(1);
  const int file = ::open(segment.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>((blocks + 1) * location_unit)) != 0)
    give_up("cannot make a sparse segment");
  ::close(file);
  test::rng random{9};
  block_key parent{7, 7};
  const block_content content(8, std::byte{1});  // opening reads no contents
  for (uint64_t i = 0; i < blocks;) {
    journal_batch step;
    for (; i < blocks && step.put.size() < 4'096; ++i) {
      block_record r;
      r.key = {random.next(), random.next()};
      r.depth = static_cast<uint32_t>(i % prompt_blocks);
      r.parent = r.depth == 0 ? block_key{7, 7} : parent;
      r.length = 4'000;
      r.location = {1, (i + 1) * location_unit};
      r.expiry = now().wall + std::chrono::hours{i / prompt_blocks % 60};
      r.state = block_state::committed;
      r.classes = 2;
      parent = r.key;
      step.contents.emplace_back(r.key, content);
      step.put.push_back(r);
    }
    if (!journal->apply(step, journal_wait::kernel)) give_up("apply");
  }
  if (!journal->sync()) give_up("sync");
}

void bench_restart(const std::string& folder, uint64_t blocks) {
  store_config config;
  config.capacity_bytes = uint64_t{1} << 42;
  config.segment_bytes = uint64_t{1} << 41;
  config.expected_blocks = blocks;
  if (!std::filesystem::exists(folder + "/index")) make_records(folder, blocks);
  std::unique_ptr<block_store> store;
  const double open = seconds([&] {
    store = must(open_rocks_store({folder, {}, {}, config}), "open");
  });
  prefix_index index{blocks};
  const double replica = seconds([&] {
    index.begin_snapshot();
    uint64_t cursor = 0;
    do {
      const auto page = store->snapshot(cursor, 4'096);
      index.add_page(page);
      cursor = page.next_cursor;
    } while (cursor != 0);
    index.end_snapshot();
  });
  if (index.stats().blocks != blocks) give_up("blocks are missing");
  bench::print_line("storage.restart.open_store", {open, 0, 1}, "s");
  bench::print_line("storage.restart.fill_index", {replica, 0, 1}, "s");
}

// ---- bytes on the disk

struct disk_setup {
  std::string folder;
  disk_options disk;
  uint32_t blocks = 0;
};

struct chain_data {
  std::vector<block_key> keys;
  std::vector<block_content> contents;
};

chain_data some_chain(uint32_t blocks) {
  chain_data chain;
  const auto tokens = some_tokens(5, size_t{blocks} * block_tokens);
  chain_hasher hasher{{1, 2}, block_tokens};
  if (!hasher.append(tokens, {}, chain.keys)) give_up("hash");
  for (uint32_t i = 0; i < blocks; ++i)
    chain.contents.push_back(
        content_of(std::span{tokens}.subspan(size_t{i} * block_tokens, block_tokens), i, {}));
  return chain;
}

/// Bytes that no device can make smaller; one buffer per block of a batch.
std::vector<std::vector<std::byte>> some_bytes() {
  test::rng random{11};
  std::vector<std::vector<std::byte>> bytes(batch, std::vector<std::byte>(block_bytes));
  for (auto& block : bytes)
    for (size_t i = 0; i + 8 <= block.size(); i += 8) {
      const uint64_t word = random.next();
      std::copy_n(reinterpret_cast<const std::byte*>(&word), 8,
                  block.begin() + static_cast<ptrdiff_t>(i));
    }
  return bytes;
}

/// Whatever the kernel keeps of these files is dropped, so that reads come from the device.
void forget_pages(const std::string& folder) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const int file = ::open(entry.path().c_str(), O_RDONLY);
    ::fdatasync(file);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }
}

std::vector<uint32_t> shuffled(uint32_t count, uint64_t seed) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  test::rng random{seed};
  for (uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

double rate(uint32_t blocks, double time) {
  return block_bytes / 1e6 * blocks / time;
}

struct rates {
  std::vector<double> write, read;
};

void store_round(const disk_setup& setup, const chain_data& chain, uint64_t seed, rates& out) {
  const std::string folder = setup.folder + "/store";
  std::filesystem::remove_all(folder);
  store_config config;
  config.durable = durability::index;
  auto store = must(open_rocks_store({folder, setup.disk, {}, config}), "store");
  const auto bytes = some_bytes();
  out.write.push_back(rate(
      setup.blocks, seconds([&] {
        for (uint32_t at = 0; at < setup.blocks; at += batch) {
          std::vector<reserve_item> items;
          for (uint32_t i = at; i < std::min(setup.blocks, at + batch); ++i)
            items.push_back({chain.keys[i], i == 0 ? block_key{1, 2} : chain.keys[i - 1], i,
                             block_bytes, chain.contents[i]});
          const auto reserved = must(
              store->reserve({scope_id{1}, {1, 1}, traffic_class::chat, now()}, items), "reserve");
          std::vector<write_item> writes;
          std::vector<commit_item> commits;
          for (uint32_t i = 0; i < items.size(); ++i) {
            writes.push_back({reserved[i].ticket, bytes[i]});
            commits.push_back({reserved[i].ticket, block_checksum(items[i].key, bytes[i])});
          }
          must(store->write(writes, now()), "write");
          for (const auto outcome : must(store->commit(commits, now()), "commit"))
            if (outcome != commit_outcome::stored) give_up("a block was not stored");
        }
      })));
  forget_pages(folder);
  std::vector<std::vector<std::byte>> into(batch, std::vector<std::byte>(block_bytes));
  const auto order = shuffled(setup.blocks, seed);
  out.read.push_back(rate(setup.blocks, seconds([&] {
                            for (uint32_t at = 0; at < setup.blocks; at += batch) {
                              std::vector<read_item> items;
                              for (uint32_t i = at; i < std::min(setup.blocks, at + batch); ++i)
                                items.push_back({chain.keys[order[i]], into[i - at]});
                              for (const auto& answer : must(store->read(items, {}, now()), "read"))
                                if (answer.status != read_status::ok)
                                  give_up("a block was not read");
                            }
                          })));
}

/// The same bytes at the same depth and mode without a store: append, or slots in any order.
void bare_round(
    const disk_setup& setup, uint64_t seed, uint64_t set_aside, rates& append, rates& slots) {
  const std::string folder = setup.folder + "/bare";
  std::filesystem::remove_all(folder);
  auto files = must(disk_files::in(folder, setup.disk), "files");
  auto file = must(files->create("f", set_aside), "file");
  auto bytes = some_bytes();
  const uint64_t stride = stride_of(block_bytes);
  const auto order = shuffled(setup.blocks, seed);
  const auto pass = [&](file_operation::kind what, const std::vector<uint32_t>* places) {
    return rate(setup.blocks, seconds([&] {
                  for (uint32_t at = 0; at < setup.blocks; at += batch) {
                    std::vector<file_operation> operations;
                    for (uint32_t i = at; i < std::min(setup.blocks, at + batch); ++i)
                      operations.push_back({what, file.get(),
                                            (places != nullptr ? (*places)[i] : i) * stride,
                                            bytes[i - at]});
                    files->run(operations);
                    for (const auto& op : operations)
                      if (op.result != file_operation::outcome::done) give_up("bare");
                    if (what == file_operation::kind::write && !files->sync(*file)) give_up("sync");
                  }
                }));
  };
  append.write.push_back(pass(file_operation::kind::write, nullptr));
  slots.write.push_back(pass(file_operation::kind::write, &order));
  forget_pages(folder);
  append.read.push_back(pass(file_operation::kind::read, &order));
}

void rocks_round(const disk_setup& setup, const chain_data& chain, uint64_t seed, rates& out) {
  const std::string folder = setup.folder + "/values";
  std::filesystem::remove_all(folder);
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  rocksdb::DB* opened = nullptr;
  if (!rocksdb::DB::Open(options, folder, &opened).ok()) give_up("rocksdb");
  const std::unique_ptr<rocksdb::DB> db{opened};
  const auto bytes = some_bytes();
  const auto name = [&chain](uint32_t i) {
    const auto key = to_bytes(chain.keys[i]);
    return std::string(reinterpret_cast<const char*>(key.data()), key.size());
  };
  out.write.push_back(
      rate(setup.blocks, seconds([&] {
             for (uint32_t i = 0; i < setup.blocks; ++i)
               db->Put({}, name(i),
                       {reinterpret_cast<const char*>(bytes[i % batch].data()), block_bytes});
             db->Flush({});
           })));
  forget_pages(folder);
  std::string value;
  const auto order = shuffled(setup.blocks, seed);
  out.read.push_back(rate(setup.blocks, seconds([&] {
                            for (const uint32_t i : order)
                              if (!db->Get({}, name(i), &value).ok()) give_up("rocksdb get");
                          })));
}

void bench_disk(const disk_setup& setup, const std::string& mode) {
  const auto chain = some_chain(setup.blocks);
  rates store, append, slots, values, growing, unused;
  for (int run = 0; run < runs; ++run) {  // in turn, since the machine is not quiet
    const uint64_t seed = 100 + static_cast<uint64_t>(run);
    bare_round(setup, seed, 0, growing, unused);
    bare_round(setup, seed, setup.blocks * stride_of(block_bytes), append, slots);
    store_round(setup, chain, 100 + static_cast<uint64_t>(run), store);
    rocks_round(setup, chain, 100 + static_cast<uint64_t>(run), values);
  }
  const auto line = [&mode](const char* name, const std::vector<double>& v, const char* to,
                            const std::vector<double>& base) {
    const std::string prefix = "storage." + mode + ".";
    bench::print_line(prefix + name, bench::summarize(v), "MB/s",
                      {base.empty() ? "" : prefix + to, bench::middle(base)});
  };
  line("bare_append", append.write, "", {});
  line("bare_append_growing", growing.write, "bare_append", append.write);
  line("bare_slots", slots.write, "bare_append", append.write);
  line("store_write", store.write, "bare_append", append.write);
  line("rocksdb_value_write", values.write, "bare_append", append.write);
  line("bare_random_read", append.read, "", {});
  line("store_random_read", store.read, "bare_random_read", append.read);
  line("rocksdb_value_random_read", values.read, "bare_random_read", append.read);
  std::filesystem::remove_all(setup.folder + "/store");
  std::filesystem::remove_all(setup.folder + "/bare");
  std::filesystem::remove_all(setup.folder + "/values");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto number = [&arguments](size_t at, uint64_t fallback) {
    return arguments.size() > at ? std::stoull(arguments[at]) : fallback;
  };
  if (arguments.empty())
    give_up("FOLDER [cached|direct] [BLOCKS] | index [BLOCKS] | restart FOLDER [BLOCKS]");
  if (arguments[0] == "index") {
    bench_hash();
    bench_index(number(1, 10'000'000));
  } else if (arguments[0] == "restart" && arguments.size() > 1) {
    bench_restart(arguments[1], number(2, 10'000'000));
  } else {
    const std::string mode = arguments.size() > 1 ? arguments[1] : "cached";
    disk_options disk;
    disk.queue_depth = depth;
    if (mode == "direct") disk.cache = disk_options::caching::direct;
    bench_disk({arguments[0], disk, static_cast<uint32_t>(number(2, 2'048))}, mode);
  }
  return 0;
}
