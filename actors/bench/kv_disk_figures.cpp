// Blocks on a disk: the store beside `fio` and beside the store's own file layer alone.
#include "actors/bench/fio_run.hpp"
#include "actors/bench/kv_figures.hpp"
#include "actors/bench/kv_sample.hpp"
#include "storage/block/block_checksum.hpp"
#include "storage/catalog/catalogue.hpp"
#include "storage/rocks/rocks_store.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

namespace deepinfer::bench {
namespace {

using namespace storage;

/// A folder of the run's own, gone with its object.
class bench_folder {
public:
  explicit bench_folder(const std::string& in) : path_(in + "/deepinfer-bench-kv") { clear(); }
  ~bench_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  bench_folder(const bench_folder&) = delete;
  bench_folder& operator=(const bench_folder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  void clear() const {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
    std::filesystem::create_directories(path_, ignored);
  }

private:
  std::string path_;
};

/// Whatever the kernel keeps of these files is dropped, so that reads come from the device.
void forget_pages(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, ignored)) {
    if (!entry.is_regular_file(ignored)) continue;
    const int file = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    static_cast<void>(::fdatasync(file));
    static_cast<void>(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED));
    ::close(file);
  }
}

/// Megabytes of blocks a second, one value a round.
struct disk_rates {
  std::vector<double> fio_append, fio_random_write, fio_random_read;
  std::vector<double> files_append, files_read, files_read_verified;
  std::vector<double> store_write, store_read;
};

class disk_bench {
public:
  disk_bench(const kv_plan& plan, disk_options::caching cache)
      : plan_(plan),
        folder_(plan.folder),
        chain_(make_kv_chain(kv_tokens(5, plan.disk_blocks))),
        bytes_(kv_bytes(plan.batch)) {
    for (uint32_t i = 0; i < plan.disk_blocks; ++i) {
      contents_.push_back(chain_.content(i));
      checksums_.push_back(block_checksum(chain_.keys[i], bytes_[i % plan.batch]));
    }
    disk_.cache = cache;
    disk_.queue_depth = plan.queue_depth;
  }

  result<void> round(uint64_t seed, bool with_fio) {
    order_ = shuffled_numbers(plan_.disk_blocks, seed);
    if (with_fio)
      if (auto done = fio_round(); !done) return done;
    folder_.clear();
    if (auto done = store_round(); !done) return done;
    folder_.clear();
    if (auto done = files_round(); !done) return done;
    folder_.clear();
    return {};
  }
  [[nodiscard]] const disk_rates& rates() const { return rates_; }

private:
  [[nodiscard]] double megabytes(double blocks_a_second) const {
    return blocks_a_second * kv_block_bytes * 1e-6;
  }
  template <class Work>
  result<double> rate_of(Work&& work) const {
    const auto begin = std::chrono::steady_clock::now();
    if (result<void> done = work(); !done) return done.error();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    return megabytes(plan_.disk_blocks / took.count());
  }
  /// One batch after another: `work(first, end)`.
  template <class Work>
  result<double> batches(Work&& work) const {
    return rate_of([&]() -> result<void> {
      for (uint32_t at = 0; at < plan_.disk_blocks; at += plan_.batch)
        if (result<void> done = work(at, std::min(plan_.disk_blocks, at + plan_.batch)); !done)
          return done;
      return {};
    });
  }

  // ---- fio

  result<void> fio_round() {
    fio_job job{.blocks = plan_.disk_blocks,
                .block_bytes = stride_of(kv_block_bytes),
                .queue_depth = plan_.queue_depth,
                .sync_every = plan_.durable == durability::process ? 0 : plan_.batch,
                .direct = disk_.cache == disk_options::caching::direct,
                .ring = ring_};
    const auto pass = [&](const char* name, fio_job::order what, std::vector<double>& out) {
      job.file = folder_.path() + "/" + name;
      job.what = what;
      auto rate = run_fio(job);
      if (rate) out.push_back(megabytes(*rate));
      return rate;
    };
    using order = fio_job::order;
    for (const auto& [name, what, out] :
         {std::tuple{"fio-appended", order::append, &rates_.fio_append},
          std::tuple{"fio-random", order::random_write, &rates_.fio_random_write},
          std::tuple{"fio-appended", order::random_read, &rates_.fio_random_read}})
      if (auto done = pass(name, what, *out); !done) return done.error();
    return {};
  }

  // ---- the store

  result<void> store_round() {
    store_config config;
    config.durable = plan_.durable;
    auto store = open_rocks_store({folder_.path(), disk_, {}, config});
    if (!store) return store.error();
    auto written = batches([&](uint32_t from, uint32_t to) { return put(**store, from, to); });
    if (!written) return written.error();
    rates_.store_write.push_back(*written);
    forget_pages(folder_.path());
    std::vector<std::vector<std::byte>> into(plan_.batch, std::vector<std::byte>(kv_block_bytes));
    auto read = batches([&](uint32_t from, uint32_t to) -> result<void> {
      std::vector<read_item> items;
      for (uint32_t i = from; i < to; ++i)
        items.push_back({chain_.keys[order_[i]], into[i - from]});
      const auto answers = (*store)->read(items, {}, kv_moment());
      if (!answers) return answers.error();
      for (const read_outcome& answer : *answers)
        if (answer.status != read_status::ok) return bad("a block was not read");
      return {};
    });
    if (!read) return read.error();
    rates_.store_read.push_back(*read);
    return {};
  }

  result<void> put(block_store& store, uint32_t from, uint32_t to) const {
    std::vector<reserve_item> items;
    for (uint32_t i = from; i < to; ++i)
      items.push_back({chain_.keys[i], i == 0 ? chain_.root : chain_.keys[i - 1], i, kv_block_bytes,
                       contents_[i]});
    const auto reserved =
        store.reserve({scope_id{1}, {1, 1}, traffic_class::chat, kv_moment()}, items);
    if (!reserved) return reserved.error();
    std::vector<write_item> writes;
    std::vector<commit_item> commits;
    for (uint32_t i = 0; i < items.size(); ++i) {
      writes.push_back({(*reserved)[i].ticket, bytes_[i]});
      commits.push_back({(*reserved)[i].ticket, checksums_[from + i]});
    }
    if (const auto written = store.write(writes, kv_moment()); !written) return written.error();
    const auto stored = store.commit(commits, kv_moment());
    if (!stored) return stored.error();
    for (const commit_outcome outcome : *stored)
      if (outcome != commit_outcome::stored) return bad("a block was not stored");
    return {};
  }

  // ---- the file layer alone

  result<void> files_round() {
    auto files = disk_files::in(folder_.path() + "/files", disk_);
    if (!files) return files.error();
    auto file = (*files)->create("f", plan_.disk_blocks * stride_of(kv_block_bytes));
    if (!file) return file.error();
    ring_ = (*files)->report().ring;
    auto bytes = bytes_;  // read into as well
    const auto pass = [&](file_operation::kind what, auto&& each) {
      return batches([&](uint32_t from, uint32_t to) -> result<void> {
        std::vector<file_operation> operations;
        for (uint32_t i = from; i < to; ++i) {
          const uint64_t place = what == file_operation::kind::read ? order_[i] : i;
          operations.push_back(
              {what, file->get(), place * stride_of(kv_block_bytes), bytes[i - from]});
        }
        (*files)->run(operations, {.ended = each});
        for (const file_operation& op : operations)
          if (op.result != file_operation::outcome::done) return bad("the disk failed");
        const bool synced = what == file_operation::kind::read ||
                            plan_.durable == durability::process || (*files)->sync(**file);
        return synced ? result<void>{} : bad("the disk was not synced");
      });
    };
    uint64_t sum = 0;
    const auto nothing = [](const file_operation&) {};
    const auto verify = [&sum](const file_operation& op) { sum ^= block_checksum({}, op.head); };
    auto append = pass(file_operation::kind::write, nothing);
    forget_pages(folder_.path());
    auto read = pass(file_operation::kind::read, nothing);
    forget_pages(folder_.path());
    auto verified = pass(file_operation::kind::read, verify);
    for (const auto* done : {&append, &read, &verified})
      if (!*done) return done->error();
    if (sum == 1) return bad("checksums of nothing");
    rates_.files_append.push_back(*append);
    rates_.files_read.push_back(*read);
    rates_.files_read_verified.push_back(*verified);
    return {};
  }

  static failure bad(const char* what) { return {error_code::internal, what}; }

  const kv_plan& plan_;
  bench_folder folder_;
  kv_chain chain_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<block_content> contents_;  // what writers bring along
  std::vector<uint64_t> checksums_;
  disk_options disk_;
  std::vector<uint32_t> order_;
  disk_rates rates_;
  bool ring_ = true;
};

void add_figures(const std::string& prefix, const disk_rates& rates, std::vector<figure>& out) {
  const auto plain = [&](const char* name, const std::vector<double>& values) {
    if (!values.empty()) out.push_back(make_figure(prefix + name, "MB/s", values));
  };
  const auto beside = [&](const char* name, const std::vector<double>& values, const char* to,
                          const std::vector<double>& base) {
    if (base.empty())
      out.push_back(make_figure(prefix + name, "MB/s", values));
    else
      out.push_back(make_figure(prefix + name, "MB/s", values, {prefix + to, base}));
  };
  plain("fio_append", rates.fio_append);
  if (!rates.fio_append.empty())
    beside("fio_random_write", rates.fio_random_write, "fio_append", rates.fio_append);
  beside("store_write", rates.store_write, "fio_append", rates.fio_append);
  beside("files_append", rates.files_append, "fio_append", rates.fio_append);
  plain("fio_random_read", rates.fio_random_read);
  beside("store_random_read", rates.store_read, "fio_random_read", rates.fio_random_read);
  beside("files_random_read", rates.files_read, "fio_random_read", rates.fio_random_read);
  beside("files_random_read_verified", rates.files_read_verified, "files_random_read",
         rates.files_read);
}

}  // namespace

result<std::vector<figure>> measure_kv_disk(const kv_plan& plan) {
  const bool with_fio = fio_installed();
  if (!with_fio)
    std::fputs("deepinfer bench: fio is not installed: the disk's own figures are left out\n",
               stderr);
  std::vector<figure> out;
  for (const auto& [name, cache] : {std::pair{"kv.direct.", disk_options::caching::direct},
                                    std::pair{"kv.cached.", disk_options::caching::page_cache}}) {
    disk_bench bench{plan, cache};
    for (size_t round = 0; round < plan.rounds; ++round)  // in turns, as the disk has moods
      if (auto done = bench.round(100 + round, with_fio); !done) return done.error();
    add_figures(name, bench.rates(), out);
  }
  return out;
}

}  // namespace deepinfer::bench
