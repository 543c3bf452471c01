#include "actors/bench/kv_figures.hpp"

#include "actors/bench/kv_sample.hpp"
#include "actors/bench/machine_limits.hpp"
#include "proto/types/check.hpp"
#include "storage/block/block_checksum.hpp"
#include "storage/index/prefix_index.hpp"

#include <chrono>
#include <utility>

namespace deepinfer::bench {
namespace {

using bench_clock = std::chrono::steady_clock;

double wall_us() {
  return std::chrono::duration<double, std::micro>(bench_clock::now().time_since_epoch()).count();
}

/// Some entries belong to prompts that are matched, the others stand between them.
void fill_index(const kv_plan& plan, storage::prefix_index& index) {
  kv_random random{3};
  storage::snapshot_page page;
  page.position = {1, 1};
  const uint64_t each = plan.index_blocks / plan.index_prompts;
  const uint64_t others = each > kv_prompt_blocks ? each - kv_prompt_blocks : 0;
  index.begin_snapshot();
  for (uint32_t prompt = 0; prompt < plan.index_prompts; ++prompt) {
    page.blocks.clear();
    const kv_chain chain = make_kv_chain(kv_tokens(prompt, kv_prompt_blocks));
    for (uint32_t i = 0; i < kv_prompt_blocks; ++i)
      page.blocks.push_back({.key = chain.keys[i],
                             .depth = i,
                             .content_digest = storage::content_digest(chain.content(i))});
    for (uint64_t i = 0; i < others; ++i)
      page.blocks.push_back({.key = {random.next(), random.next()}, .depth = 5});
    index.add_page(page);
  }
  index.end_snapshot();
}

/// Microseconds of one prompt's match, by the wall and by the processor time of this thread. The
/// second says what is ours where the machine takes the core away.
struct match_times {
  std::vector<double> hash, match, whole, cpu;
};

result<match_times> match_prompts(const kv_plan& plan, const storage::prefix_index& index) {
  match_times times;
  for (uint32_t i = 0; i < plan.index_prompts; ++i) {
    // in another order than they were put in, so that neither keys nor entries are in a cache
    const auto tokens = kv_tokens(uint64_t{i} * 7 % plan.index_prompts, kv_prompt_blocks);
    const double cpu = bench_seconds(1), begin = wall_us();
    std::vector<storage::block_key> keys;
    storage::chain_hasher hasher{{1, 2}, kv_block_tokens};
    DEEPINFER_CHECK(hasher.append(tokens, {}, keys).has_value());
    const double hashed = wall_us();
    const auto found = index.match({keys, tokens, {}});
    const double matched = wall_us();
    times.cpu.push_back(1e6 * (bench_seconds(1) - cpu));
    times.hash.push_back(hashed - begin);
    times.match.push_back(matched - hashed);
    times.whole.push_back(matched - begin);
    if (found.blocks != kv_prompt_blocks)
      return failure{error_code::internal, "the index does not find a prompt that it was given"};
  }
  return times;
}

}  // namespace

result<std::vector<figure>> measure_kv_match(const kv_plan& plan) {
  std::vector<double> checksum;
  const auto block = kv_bytes(1).front();
  uint64_t sum = 0;
  for (int i = 0; i < 200; ++i) {
    const double begin = wall_us();
    sum += storage::block_checksum({1, 2}, block);
    checksum.push_back(wall_us() - begin);
  }
  DEEPINFER_CHECK(sum != 1);
  storage::prefix_index index{plan.index_blocks};
  const double begin = wall_us();
  fill_index(plan, index);
  const double filled = (wall_us() - begin) * 1e-6;
  auto times = match_prompts(plan, index);
  if (!times) return times.error();
  const auto stats = index.stats();
  const auto blocks = static_cast<double>(stats.blocks);
  const auto shares = [](const std::string& name, const std::vector<double>& values) {
    figure half = make_figure("kv.match." + name + "_p50", "us", values);
    figure most = half;
    most.name = "kv.match." + name + "_p99";
    most.value = quantile(values, 0.99);
    return std::pair{half, most};
  };
  std::vector<figure> out;
  out.push_back(make_figure("kv.checksum_block", "us", checksum));
  out.push_back(make_figure("kv.match.indexed", "blocks", {blocks}));
  out.push_back(make_figure("kv.match.memory", "B/block",
                            {static_cast<double>(stats.memory_bytes) / blocks}));
  out.push_back(make_figure("kv.match.fill", "s", {filled}));
  for (const auto& [name, values] : {std::pair{"hash_602", &times->hash},
                                     {"index_602", &times->match},
                                     {"prompt_602", &times->whole},
                                     {"prompt_602_cpu", &times->cpu}}) {
    auto [half, most] = shares(name, *values);
    out.push_back(std::move(half));
    out.push_back(std::move(most));
  }
  return out;
}

result<std::vector<figure>> measure_kv_figures(const kv_plan& plan) {
  std::vector<figure> all;
  const auto add = [&all](result<std::vector<figure>> part) -> result<void> {
    if (!part) return part.error();
    for (figure& f : *part) all.push_back(std::move(f));
    return {};
  };
  if (plan.index_blocks > 0)
    if (auto done = add(measure_kv_match(plan)); !done) return done.error();
  if (plan.disk_blocks > 0)
    if (auto done = add(measure_kv_disk(plan)); !done) return done.error();
  if (plan.restart_blocks > 0)
    if (auto done = add(measure_kv_restart(plan)); !done) return done.error();
  if (plan.fetch_blocks > 0)
    if (auto done = add(measure_kv_fetch(plan)); !done) return done.error();
  if (plan.persist_steps > 0 && !plan.model.empty())
    if (auto done = add(measure_kv_persist(plan)); !done) return done.error();
  return all;
}

}  // namespace deepinfer::bench
