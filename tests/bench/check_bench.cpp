// What a request waits for: its prompt hashed and looked up in the indexes of several stores, alone
// and while they are fed. One JSON line a figure. `check_bench [BLOCKS] [STORES]`.
#include "actors/cache/index_set.hpp"
#include "storage/block/chain_hasher.hpp"
#include "tests/bench/bench_line.hpp"
#include "tests/support/rng.hpp"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace deepinfer;
using storage::block_key;

constexpr uint32_t block_tokens = 128;
constexpr uint32_t group_blocks = 64;
constexpr uint32_t prompt_blocks = 602;
constexpr uint64_t prompts = 2'000;
constexpr block_key root{1, 2};

double now_us(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "check_bench: %s\n", why);
  std::exit(1);
}

std::vector<int32_t> tokens_of(uint64_t prompt) {
  test::rng random{prompt + 1};
  std::vector<int32_t> tokens(size_t{prompt_blocks} * block_tokens);
  for (auto& t : tokens) t = static_cast<int32_t>(random.below(129'280));
  return tokens;
}

/// Stores and what is told to each.
struct indexed {
  index_set set;
  std::vector<policy::store_site> sites;
  std::vector<std::shared_ptr<storage::prefix_index>> indexes;
  std::vector<uint64_t> sequences;

  explicit indexed(uint64_t stores) : sequences(stores, 0) {
    for (uint64_t n = 0; n < stores; ++n) {
      const block_key id{n + 1, n + 1};
      if (set.offer({id, 1, group_blocks, 1, {{1, n + 1}, n + 1, 1}}) != index_set::offered::taken)
        give_up("a store was not taken");
      sites.push_back({id.hi, id.lo, 1});
      indexes.push_back(set.index(id));
      indexes.back()->begin_snapshot();
      indexes.back()->add_page({{1, 0}, 0, {}});
      indexes.back()->end_snapshot();
    }
  }

  void tell(uint64_t store, std::vector<storage::block_change> changes) {
    for (auto& c : changes) c.sequence = ++sequences[store];
    if (!indexes[store]->apply({false, {1, sequences[store]}, std::move(changes)}))
      give_up("changes were not taken");
  }

  void put_prompt(uint64_t prompt) {
    const auto tokens = tokens_of(prompt);
    std::vector<block_key> keys;
    storage::chain_hasher hasher{root, block_tokens};
    if (!hasher.append(tokens, {}, keys)) give_up("hash");
    for (uint32_t first = 0; first < keys.size(); first += group_blocks) {
      std::vector<storage::block_change> changes;
      for (uint32_t b = first; b < std::min<size_t>(keys.size(), first + group_blocks); ++b) {
        const auto part = std::span{tokens}.subspan(size_t{b} * block_tokens, block_tokens);
        changes.push_back(
            {.key = keys[b],
             .depth = b,
             .content_digest = storage::content_digest(storage::content_of(part, b, {}))});
      }
      tell(policy::owners(keys[first], sites, 1).front(), std::move(changes));
    }
  }

  /// Blocks of nobody's prompt.
  void put_others(uint64_t store, test::rng& random, uint64_t count) {
    std::vector<storage::block_change> changes(count);
    for (auto& c : changes) {
      c.key = {random.next(), random.next()};
      c.depth = 5;
    }
    tell(store, std::move(changes));
  }
};

void line(const std::string& name, double value, const char* unit) {
  bench::print_line("check." + name, {value, 0, 1}, unit);
}

void match_all(const indexed& all, const std::string& name) {
  std::vector<double> wall, cpu;
  for (uint64_t i = 0; i < prompts; ++i) {
    const auto tokens = tokens_of(i * 7 % prompts);
    const double begin = now_us(CLOCK_MONOTONIC), cpu_begin = now_us(CLOCK_THREAD_CPUTIME_ID);
    const auto hit = all.set.match(root, tokens);
    wall.push_back(now_us(CLOCK_MONOTONIC) - begin);
    cpu.push_back(now_us(CLOCK_THREAD_CPUTIME_ID) - cpu_begin);
    if (hit.hit_blocks != prompt_blocks) give_up("a prompt is not found");
  }
  line(name + "_p50", quantile(wall, 0.5), "us");
  line(name + "_p95", quantile(wall, 0.95), "us");
  line(name + "_p99", quantile(wall, 0.99), "us");
  line(name + "_cpu_p50", quantile(cpu, 0.5), "us");
  line(name + "_cpu_p99", quantile(cpu, 0.99), "us");
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t blocks = argc > 1 ? std::stoull(argv[1]) : 10'000'000;
  const uint64_t stores = argc > 2 ? std::stoull(argv[2]) : 4;
  if (blocks < prompts * prompt_blocks || stores == 0) give_up("at least 1204000 blocks, 1 store");
  indexed all{stores};
  test::rng random{3};
  for (uint64_t i = 0; i < prompts; ++i) all.put_prompt(i);
  for (uint64_t left = blocks - prompts * prompt_blocks; left > 0;) {
    const uint64_t some = std::min<uint64_t>(left, 4'096);
    all.put_others(left / 4'096 % stores, random, some);
    left -= some;
  }
  const auto stats = all.set.stats();
  line("blocks", static_cast<double>(stats.blocks), "blocks");
  line("memory", static_cast<double>(stats.memory_bytes) / static_cast<double>(stats.blocks),
       "B/block");
  match_all(all, "match_602");
  // A million changes a second are more than any store makes.
  std::atomic<bool> over{false};
  uint64_t told = 0;
  std::thread feeder{[&] {
    while (!over) {
      for (uint64_t s = 0; s < stores; ++s) all.put_others(s, random, 4'096);
      told += stores * 4'096;
    }
  }};
  const double begin = now_us(CLOCK_MONOTONIC);
  match_all(all, "match_602_fed");
  over = true;
  feeder.join();
  line("fed", static_cast<double>(told) / (now_us(CLOCK_MONOTONIC) - begin), "changes/us");
  return 0;
}
