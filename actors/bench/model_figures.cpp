#include "actors/bench/model_figures.hpp"

#include "actors/bench/machine_limits.hpp"
#include "actors/bench/model_run.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace deepinfer::bench {
namespace {

// Rounds of one measured piece of work, and of the time the machine's limits allow for it.
struct timed_rounds {
  std::vector<double> seconds;
  std::vector<double> read_seconds;  ///< stored weights at the measured bandwidth
  std::vector<double> fma_seconds;   ///< multiplications at the measured rate

  void add(const timed_work& done, const machine_limits& limits) {
    seconds.push_back(done.seconds);
    read_seconds.push_back(static_cast<double>(done.work.weight_bytes) / limits.read_bytes);
    fma_seconds.push_back(static_cast<double>(done.work.flops) / limits.fma_flops);
  }

  [[nodiscard]] std::vector<double> roofline() const {
    std::vector<double> out;
    for (size_t i = 0; i < seconds.size(); ++i)
      out.push_back(std::max(read_seconds[i], fma_seconds[i]));
    return out;
  }
};

// value: the time; ratio: the share of the limit, so that 1 is the machine's own speed.
figure share_of(const std::string& name, const timed_rounds& rounds, bool of_fma) {
  const std::vector<double> limit = of_fma ? rounds.fma_seconds : rounds.roofline();
  std::vector<double> ms, shares;
  for (size_t i = 0; i < rounds.seconds.size(); ++i) {
    ms.push_back(rounds.seconds[i] * 1e3);
    shares.push_back(limit[i] / rounds.seconds[i]);
  }
  figure f = make_figure(name, "ms", ms);
  f.ratio_to = of_fma ? "fma" : "roofline";
  f.ratio = median(shares);
  return f;
}

std::string threads_name(uint32_t threads) {
  return threads == 1 ? "1 thread" : std::to_string(threads) + " threads";
}

// The figures of one checkpoint with one number of threads.
class model_bench {
public:
  model_bench(const model_plan& plan, uint32_t threads) : plan_(plan), threads_(threads) {}

  result<void> run(const std::filesystem::path& folder, const std::string& name) {
    auto made = model_run::load(folder, {plan_.level, threads_});
    if (!made) return made.error();
    model_run& model = **made;
    timed_rounds prefill;
    std::vector<timed_rounds> decode(plan_.batches.size());
    std::vector<double> read, fma;
    for (uint32_t round = 0; round < plan_.rounds; ++round) {
      const machine_limits limits = measure_limits(threads_);
      read.push_back(limits.read_bytes / 1e9);
      fma.push_back(limits.fma_flops / 1e9);
      auto done = model.prefill(plan_.prompt_tokens);
      if (!done) return done.error();
      prefill.add(*done, limits);
      for (size_t i = 0; i < plan_.batches.size(); ++i) {
        done = model.decode({plan_.batches[i], plan_.context_tokens, plan_.decode_steps});
        if (!done) return done.error();
        decode[i].add(*done, limits);
      }
    }
    const std::string with = ", " + threads_name(threads_);
    figures.push_back(make_figure("machine read" + with, "GB/s", read));
    figures.push_back(make_figure("machine fma" + with, "GFLOP/s", fma));
    figures.push_back(
        share_of(name + " prefill " + std::to_string(plan_.prompt_tokens) + with, prefill, true));
    for (size_t i = 0; i < plan_.batches.size(); ++i)
      figures.push_back(
          share_of(name + " decode step, batch " + std::to_string(plan_.batches[i]) + with,
                   decode[i], false));
    return {};
  }

  std::vector<figure> figures;

private:
  const model_plan& plan_;
  uint32_t threads_;
};

figure plain(std::string name, std::string unit, double value) {
  figure f;
  f.name = std::move(name);
  f.unit = std::move(unit);
  f.value = value;
  f.runs = 1;
  return f;
}

constexpr double mib = 1024.0 * 1024.0;

// What a decode step costs when its token's log probability is told, alone and with the best 20;
// in alternation with steps that tell nothing.
result<std::vector<figure>> logprob_figures(const model_plan& plan,
                                            const std::filesystem::path& folder) {
  const auto model = model_run::load(folder, {plan.level, 1});
  if (!model) return model.error();
  constexpr uint32_t asked[] = {0, 1, 21};
  std::vector<double> ms[std::size(asked)];
  for (uint32_t round = 0; round < plan.rounds; ++round)
    for (size_t i = 0; i < std::size(asked); ++i) {
      const auto done = (*model)->decode({1, plan.context_tokens, plan.decode_steps, asked[i]});
      if (!done) return done.error();
      ms[i].push_back(done->seconds * 1e3);
    }
  std::vector<figure> out{make_figure("small decode step, nothing told", "ms", ms[0])};
  for (size_t i = 1; i < std::size(asked); ++i)
    out.push_back(make_figure("small decode step, logprobs " + std::to_string(asked[i]), "ms",
                              ms[i], {out[0].name, ms[0]}));
  return out;
}

// Loading against reading the file, in alternation, both from the page cache.
result<std::vector<figure>> load_figures(const model_plan& plan,
                                         const std::filesystem::path& folder) {
  std::vector<double> reads, loads;
  for (uint32_t round = 0; round < plan.rounds; ++round) {
    const auto read = time_plain_read(folder);
    if (!read) return read.error();
    const auto load = time_load(folder, plan.level);
    if (!load) return load.error();
    reads.push_back(*read * 1e3);
    loads.push_back(*load * 1e3);
  }
  return std::vector<figure>{make_figure("small plain read", "ms", reads),
                             make_figure("small load", "ms", loads, {"small plain read", reads})};
}

// Resident size behind a run, beside what it is made of. Scratch memory only grows, so it is the
// peak but for what loading gave back.
result<std::vector<figure>> memory_figures(const model_plan& plan,
                                           const std::filesystem::path& folder) {
  auto made = model_run::load(folder, {plan.level, 1});
  if (!made) return made.error();
  const auto done = (*made)->prefill(plan.prompt_tokens);
  if (!done) return done.error();
  std::vector<figure> out;
  out.push_back(plain("small weights in files", "MiB", (*made)->mapped_bytes() / mib));
  out.push_back(plain("small state of a prompt", "MiB", done->state_bytes / mib));
  out.push_back(plain("small resident, files", "MiB", resident_now().file / mib));
  out.push_back(plain("small resident, own", "MiB", resident_now().own / mib));
  if (plan.long_steps == 0) return out;
  const auto before = resident_now();
  const auto steps = (*made)->decode({1, plan.context_tokens, plan.long_steps});
  if (!steps) return steps.error();
  out.push_back(plain("small growth over " + std::to_string(plan.long_steps) + " steps", "MiB",
                      (static_cast<double>(resident_now().own) - before.own) / mib));
  out.push_back(plain("small state after them", "MiB", steps->state_bytes / mib));
  return out;
}

}  // namespace

result<std::vector<figure>> measure_model_figures(const model_plan& plan) {
  const auto small = use_or_make(plan.small, model::random_shape::small);
  if (!small) return small.error();
  std::vector<figure> out;
  const auto add = [&out](result<std::vector<figure>> more) -> result<void> {
    if (!more) return more.error();
    out.insert(out.end(), more->begin(), more->end());
    return {};
  };
  // Memory first: what later runs leave in the allocator would count as this one's.
  if (auto done = add(memory_figures(plan, small->path())); !done) return done.error();
  if (auto done = add(load_figures(plan, small->path())); !done) return done.error();
  if (auto done = add(logprob_figures(plan, small->path())); !done) return done.error();
  for (const uint32_t threads : {1u, 2u}) {
    model_bench bench(plan, threads);
    if (auto done = bench.run(small->path(), "small"); !done) return done.error();
    out.insert(out.end(), bench.figures.begin(), bench.figures.end());
  }
  if (plan.shard.empty()) return out;
  model_plan shard = plan;
  shard.prompt_tokens = 256;
  shard.context_tokens = 128;
  shard.batches = {1, 16};
  model_bench bench(shard, 2);
  if (auto done = bench.run(plan.shard, "flash-shard"); !done) return done.error();
  out.insert(out.end(), bench.figures.begin(), bench.figures.end());
  return out;
}

}  // namespace deepinfer::bench
