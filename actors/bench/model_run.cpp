#include "actors/bench/model_run.hpp"

#include "actors/bench/machine_limits.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/model/random_checkpoint.hpp"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

namespace deepinfer::bench {
namespace {

constexpr uint32_t wall_clock = 0;  // disk waits count

class stopwatch {
public:
  explicit stopwatch(uint32_t threads) : threads_(threads), begun_(bench_seconds(threads)) {}
  [[nodiscard]] double seconds() const { return bench_seconds(threads_) - begun_; }

private:
  uint32_t threads_;
  double begun_;
};

model::linear_work difference(const model::linear_work& after, const model::linear_work& before) {
  return {after.flops - before.flops, after.weight_bytes - before.weight_bytes};
}

}  // namespace

result<std::unique_ptr<model_run>> model_run::load(const std::filesystem::path& folder,
                                                   const run_settings& settings) {
  auto made = model::v41_model::load(
      folder, {.level = settings.level, .kept_rows = {}, .threads = settings.threads, .isa = {}});
  if (!made) return made.error();
  return std::unique_ptr<model_run>(new model_run(*std::move(made), settings.threads));
}

std::vector<int32_t> model_run::tokens(uint32_t count, uint64_t seed) const {
  rng random{seed};
  std::vector<int32_t> out(count);
  // Below the special tokens, which stand at the end of a random checkpoint's vocabulary.
  for (int32_t& t : out) t = static_cast<int32_t>(random.below(model_->info().vocabulary / 2));
  return out;
}

result<void> model_run::step(std::vector<model::step_item>& items) {
  model_->step(items);
  for (model::step_item& item : items) {
    if (item.failed) return failure{error_code::internal, "a measured step failed"};
    item.tokens = {};
  }
  return {};
}

result<timed_work> model_run::prefill(uint32_t count) {
  const auto prompt = tokens(count, 1);
  const auto sequence = model_->make_sequence();
  std::vector<model::step_item> items(1);
  items[0].target = sequence.get();
  items[0].tokens = prompt;
  items[0].sample = true;
  const model::linear_work before = model_->work();
  const stopwatch watch(threads_);
  if (auto done = step(items); !done) return done.error();
  return timed_work{watch.seconds(), difference(model_->work(), before), sequence->state_bytes()};
}

result<timed_work> model_run::decode(const decode_plan& plan) {
  std::vector<std::unique_ptr<model::sequence>> sequences;
  std::vector<std::vector<int32_t>> prompts;
  std::vector<model::step_item> items(plan.batch);
  for (uint32_t i = 0; i < plan.batch; ++i) {
    sequences.push_back(model_->make_sequence());
    prompts.push_back(tokens(plan.context, 2 + i));
    items[i].target = sequences[i].get();
    items[i].tokens = prompts[i];
    items[i].sample = true;
    items[i].sampling = {.temperature = 1, .seed = i, .logprobs = plan.logprobs};
  }
  for (uint32_t warm = 0; warm < 3; ++warm)
    if (auto done = step(items); !done) return done.error();
  const model::linear_work before = model_->work();
  const stopwatch watch(threads_);
  for (uint32_t i = 0; i < plan.steps; ++i)
    if (auto done = step(items); !done) return done.error();
  const double seconds = watch.seconds();
  const model::linear_work all = difference(model_->work(), before);
  timed_work out{seconds / plan.steps, {all.flops / plan.steps, all.weight_bytes / plan.steps}, 0};
  for (const auto& s : sequences) out.state_bytes += s->state_bytes();
  return out;
}

bench_checkpoint::~bench_checkpoint() {
  std::error_code ignored;
  if (own_) std::filesystem::remove_all(path_, ignored);
}

result<bench_checkpoint> use_or_make(const std::filesystem::path& given,
                                     model::random_shape shape) {
  if (!given.empty()) return bench_checkpoint{given, false};
  bench_checkpoint made{
      std::filesystem::temp_directory_path() / ("deepinfer-bench-" + std::to_string(::getpid())),
      true};
  std::fputs("making a random checkpoint for the run ...\n", stderr);
  if (auto done = model::make_random_checkpoint(made.path(), shape, {.progress = {}}); !done)
    return done.error();
  return made;
}

result<double> time_plain_read(const std::filesystem::path& folder) {
  std::vector<char> buffer(size_t{1} << 20);
  const stopwatch watch(wall_clock);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    in.rdbuf()->pubsetbuf(nullptr, 0);
    while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0) {
    }
    if (in.bad()) return failure{error_code::not_found, "cannot read " + entry.path().string()};
  }
  return watch.seconds();
}

result<double> time_load(const std::filesystem::path& folder, model::numeric_level level) {
  const stopwatch watch(wall_clock);
  const auto made = model_run::load(folder, {level, 1});
  if (!made) return made.error();
  return watch.seconds();
}

resident_size resident_now() {
  resident_size out;
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    uint64_t* to = word == "RssAnon:" ? &out.own : word == "RssFile:" ? &out.file : nullptr;
    if (to == nullptr) continue;
    status >> *to;
    *to *= 1024;
  }
  return out;
}

}  // namespace deepinfer::bench
