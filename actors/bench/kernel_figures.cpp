#include "actors/bench/kernel_figures.hpp"

#include "actors/bench/kernel_case.hpp"
#include "actors/bench/machine_limits.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

namespace deepinfer::bench {
namespace {

double seconds(uint32_t threads, const std::function<void()>& work) {
  const double begin = bench_seconds(threads);
  work();
  return bench_seconds(threads) - begin;
}

/// The fastest of three: what interrupts one of them is not the op's.
double fastest(uint32_t threads, const std::function<void()>& work) {
  return std::min({seconds(threads, work), seconds(threads, work), seconds(threads, work)});
}

/// Limits with one number of threads, one value a round.
struct side_limits {
  std::vector<double> read, read_l3, read_l2, multiply, handover;  // bytes/s, flop/s, s
};

/// An op with one number of threads.
struct measured_case {
  const kernel_case* what;
  std::vector<double> seconds, share;
  bool bytes_bound = false;
};

struct thread_side {
  uint32_t threads;
  kernels::cpu_device_ptr device;
  kernels::stream queue;
  side_limits limits;
  std::vector<measured_case> cases;

  [[nodiscard]] std::string suffix() const { return "_t" + std::to_string(threads); }
};

class kernel_bench {
public:
  explicit kernel_bench(const kernel_plan& plan)
      : plan_(plan), probe_(kernels::make_cpu_probe(kernels::best_cpu_isa())) {}

  result<void> open() {
    kernels::register_cpu(world_.ops);
    kernels::register_ref(world_.reference);
    fill_memory();
    add_linear_cases(world_, cases_);
    add_sparse_cases(world_, cases_);
    add_row_cases(world_, cases_);
    std::erase_if(cases_, [this](const kernel_case& c) {
      return c.name.find(plan_.only) == std::string::npos;
    });
    for (const uint32_t threads : {uint32_t{1}, plan_.threads}) {
      if (!sides_.empty() && threads == 1) continue;
      kernels::cpu_device_options options;
      options.threads = threads;
      thread_side side{threads, kernels::make_cpu_device(options), {}, {}, {}};
      if (side.device == nullptr)
        return failure{error_code::internal,
                       "no threads or memory left for " + std::to_string(threads) + " threads"};
      side.queue = stream_of(*side.device);
      for (const kernel_case& c : cases_) side.cases.push_back({&c, {}, {}});
      sides_.push_back(std::move(side));
    }
    return {};
  }

  void run() {
    for (size_t round = 0; round < plan_.rounds; ++round)
      for (thread_side& side : sides_) {
        measure_limits(side);
        for (measured_case& c : side.cases) measure(side, c);
      }
    for (const kernel_case& c : cases_)
      naive_.push_back(c.naive == nullptr ? 0 : seconds(1, c.naive));
  }

  [[nodiscard]] std::vector<figure> figures() const {
    std::vector<figure> out;
    for (const thread_side& side : sides_) add_limits(side, out);
    for (size_t i = 0; i < cases_.size(); ++i) {
      for (const thread_side& side : sides_) add_case(side, side.cases[i], out);
      add_naive(i, out);
    }
    return out;
  }

private:
  void fill_memory() {
    world_.codes.resize(plan_.memory_bytes);
    uint64_t state = 1;
    for (uint8_t& b : world_.codes) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      b = static_cast<uint8_t>(state >> 56) & 0xF7;  // not all of the low seven bits: no NaN
    }
    world_.scales.assign(size_t{8} << 20, 118);
    world_.inputs.resize(size_t{4} << 20);
    for (float& x : world_.inputs) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      x = static_cast<float>(static_cast<int64_t>(state)) * 0x1p-63f;
    }
    world_.outputs.resize(size_t{4} << 20);
  }

  void measure_limits(thread_side& side) {
    const auto read_rate = [&](size_t unit, uint32_t units, uint32_t repeats) {
      const kernels::read_probe_args args{world_.codes.data(), unit, units, repeats};
      return static_cast<double>(unit) * units * repeats /
             fastest(side.threads, [&] { probe_.read(side.queue, args); });
    };
    side_limits& l = side.limits;
    const size_t piece = size_t{1} << 20;
    l.read.push_back(read_rate(piece, static_cast<uint32_t>(plan_.memory_bytes / piece), 1));
    l.read_l3.push_back(read_rate(4 * piece, side.threads, 4));
    l.read_l2.push_back(read_rate(piece / 2, side.threads, 30));
    const kernels::multiply_probe_args work{8 * side.threads, 20'000};
    l.multiply.push_back(static_cast<double>(work.units * work.steps * probe_.flops_of_step) /
                         fastest(side.threads, [&] { probe_.multiply(side.queue, work); }));
    const kernels::handover_probe_args regions{1000};
    if (side.threads > 1)
      l.handover.push_back(fastest(side.threads, [&] { probe_.handover(side.queue, regions); }) /
                           regions.regions);
  }

  void measure(thread_side& side, measured_case& c) {
    const auto call = [&] { c.what->run(side.queue, turn_++); };
    const double once = std::max(seconds(side.threads, call), 1e-7);
    const double wanted = std::chrono::duration<double>(plan_.least).count();
    const auto calls = static_cast<size_t>(std::clamp(wanted / once, 1.0, 10'000.0));
    const double spent = fastest(side.threads,
                                 [&] {
                                   for (size_t i = 0; i < calls; ++i) call();
                                 }) /
                         static_cast<double>(calls);
    const double reading = c.what->bytes / side.limits.read.back();
    const double computing = c.what->flops / side.limits.multiply.back();
    c.bytes_bound = reading > computing;
    c.seconds.push_back(spent);
    c.share.push_back(std::max(reading, computing) / spent);
  }

  static void add_limits(const thread_side& side, std::vector<figure>& out) {
    const auto add = [&](const char* name, const char* unit, const std::vector<double>& values,
                         double scale) {
      if (values.empty()) return;
      std::vector<double> scaled = values;
      for (double& v : scaled) v *= scale;
      out.push_back(make_figure("machine." + std::string{name} + side.suffix(), unit, scaled));
    };
    add("read", "GB/s", side.limits.read, 1e-9);
    add("read_l3", "GB/s", side.limits.read_l3, 1e-9);
    add("read_l2", "GB/s", side.limits.read_l2, 1e-9);
    add("fma", "GFLOP/s", side.limits.multiply, 1e-9);
    add("handover", "us", side.limits.handover, 1e6);
  }

  /// The ratio is the share of the roofline, by the name of what bounds it.
  static void add_case(const thread_side& side, const measured_case& c, std::vector<figure>& out) {
    std::vector<double> values = c.seconds;
    for (double& v : values) v *= 1e6;
    figure f = make_figure(c.what->name + side.suffix(), "us", values);
    if (c.what->bytes > 0 || c.what->flops > 0) {
      f.ratio_to = std::string{c.bytes_bound ? "machine.read" : "machine.fma"} + side.suffix();
      f.ratio = median(c.share);
    }
    out.push_back(std::move(f));
  }

  void add_naive(size_t i, std::vector<figure>& out) const {
    if (naive_[i] == 0) return;
    const thread_side& side = sides_.front();
    const measured_case& fast = side.cases[i];
    figure f = make_figure(cases_[i].name + "_ref", "us", {naive_[i] * 1e6});
    f.ratio_to = cases_[i].name + side.suffix();
    f.ratio = naive_[i] / median(fast.seconds);
    out.push_back(std::move(f));
  }

  const kernel_plan& plan_;
  const kernels::cpu_probe probe_;
  kernel_world world_;
  std::vector<kernel_case> cases_;
  std::vector<thread_side> sides_;
  std::vector<double> naive_;
  size_t turn_ = 0;
};

}  // namespace

result<std::vector<figure>> measure_kernel_figures(const kernel_plan& plan) {
  kernel_bench bench{plan};
  if (auto opened = bench.open(); !opened) return opened.error();
  bench.run();
  return bench.figures();
}

}  // namespace deepinfer::bench
