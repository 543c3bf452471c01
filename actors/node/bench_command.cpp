#include "actors/bench/fabric_figures.hpp"
#include "actors/bench/figure.hpp"
#include "actors/bench/kernel_figures.hpp"
#include "actors/bench/model_figures.hpp"
#include "actors/bench/peer_process.hpp"
#include "actors/bench/recipe_figures.hpp"
#include "actors/bench/serve_figures.hpp"
#include "actors/node/bench_kv_command.hpp"
#include "actors/node/bench_output.hpp"
#include "actors/node/commands.hpp"
#include "kernels/api/cpu_device.hpp"
#include "runtime/net/fabric/fabric_bench.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace deepinfer {
namespace {

struct bench_flags {
  bool json = false;
  bool smoke = false;
  std::string peer;
  std::string model;
  std::string only;
  uint32_t threads = 0;
  std::string small, shard, level = "L1";
  std::string tokenizer, text;
  uint32_t long_steps = 0;
};

int show(const result<std::vector<bench::figure>>& figures, const bench_flags& flags) {
  return show_figures(figures, flags.json ? figure_form::json_lines : figure_form::table);
}

int done(const result<void>& how) {
  if (!how) std::fprintf(stderr, "deepinfer bench: %s\n", how.error().detail.c_str());
  return how ? exit_done : exit_failed;
}

int run_fabric(const bench_flags& flags) {
  if (flags.peer == bench::fabric_actor_peer) return bench::serve_fabric_actors();
  if (flags.peer == bench::fabric_transport_peer) return done(net::serve_bench("tcp"));
  bench::fabric_plan plan;
  plan.peer_command = {bench::own_program(), "bench", "fabric", "--peer"};
  if (flags.smoke) {
    plan.rounds = plan.transport_rounds = 1;
    plan.trips = plan.long_trips = plan.transport_pings = 20;
    plan.longest_trips = plan.small_blocks = plan.large_blocks = 2;
    plan.idle = std::chrono::milliseconds{50};
  }
  return show(bench::measure_fabric_figures(plan), flags);
}

/// The bundled model, when the program is started where it can be seen.
std::string model_folder(const bench_flags& flags) {
  if (!flags.model.empty()) return flags.model;
  const std::string bundled = "examples/models/tiny-v41";
  if (std::filesystem::exists(bundled + "/tokenizer.json")) return bundled;
  std::fputs("deepinfer bench: no model here (--model): chat and start are left out\n", stderr);
  return {};
}

int run_serve(const bench_flags& flags) {
  if (!flags.peer.empty()) {
    const auto site = bench::parse_site(flags.peer);
    return site ? bench::serve_site(*site) : done(site.error());
  }
  bench::serve_plan plan;
  plan.program = bench::own_program();
  plan.model = model_folder(flags);
  if (flags.smoke) {
    plan.rounds = plan.starts = 1;
    plan.connections = plan.open_streams = 4;
    plan.throughput = std::chrono::milliseconds{20};
    plan.step = std::chrono::milliseconds{2};
    plan.paced_tokens = 5;
  }
  return show(bench::measure_serve_figures(plan), flags);
}

int run_kernels(const bench_flags& flags) {
  bench::kernel_plan plan;
  plan.only = flags.only;
  plan.threads = flags.threads > 0 ? flags.threads
                                   : std::clamp(std::thread::hardware_concurrency(), 1u,
                                                kernels::most_device_threads);
  if (flags.smoke) {
    plan.rounds = 1;
    plan.memory_bytes = size_t{8} << 20;
    plan.least = std::chrono::microseconds{1};
    plan.only = flags.only.empty() ? "fp8" : flags.only;
  }
  return show(bench::measure_kernel_figures(plan), flags);
}

int run_model(const bench_flags& flags) {
  bench::model_plan plan;
  plan.small = flags.small;
  plan.shard = flags.shard;
  plan.level = *model::parse_level(flags.level);
  plan.long_steps = flags.long_steps;
  if (flags.smoke) {
    plan.rounds = 1;
    plan.prompt_tokens = 8;
    plan.context_tokens = 4;
    plan.decode_steps = 1;
    plan.batches = {1, 2};
  }
  return show(bench::measure_model_figures(plan), flags);
}

int run_recipe(const bench_flags& flags) {
  bench::recipe_plan plan;
  plan.text = flags.text;
  plan.tokenizer = flags.tokenizer.empty() ? std::string{"examples/models/tiny-v41/tokenizer.json"}
                                           : flags.tokenizer;
  if (flags.tokenizer.empty() && !std::filesystem::exists(plan.tokenizer)) {
    std::fputs("deepinfer bench: the bundled tokenizer is not here: name one (--tokenizer)\n",
               stderr);
    return exit_failed;
  }
  if (flags.smoke) {
    plan.rounds = 1;
    plan.text_bytes = 40'000;
    plan.messages = 6;
    plan.conversation_tokens = 3000;
    plan.outputs = 2;
    plan.output_bytes = 800;
  }
  return show(bench::measure_recipe_figures(plan), flags);
}

CLI::App* add_bench(CLI::App& bench,
                    const char* name,
                    const char* about,
                    const std::shared_ptr<bench_flags>& flags) {
  auto* command = bench.add_subcommand(name, about);
  command->add_flag("--json", flags->json, "one JSON line per figure");
  command->add_flag("--smoke", flags->smoke, "the smallest counts: that it runs, not how fast");
  command->add_option("--peer", flags->peer)->group("");  // how it starts itself as the other side
  return command;
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  auto* bench = app.add_subcommand("bench", "Measures; one figure per line, in a minute or a few.");
  bench->require_subcommand(1);
  auto flags = std::make_shared<bench_flags>();
  add_bench(*bench, "fabric",
            "Actors, transport and libfabric itself between two processes of this machine.", flags)
      ->callback([flags, &exit_code] { exit_code = run_fabric(*flags); });
  auto* model =
      add_bench(*bench, "model",
                "The model's steps beside this machine's read bandwidth and FMA rate.", flags);
  model->add_option(
      "--small", flags->small,
      "checkpoint of the shape `small` (model make-random); default: made for the run");
  model->add_option("--shard", flags->shard, "checkpoint of the shape `flash-shard`, measured too");
  model->add_option("--level", flags->level, "L0, L1 or L2")
      ->check(CLI::IsMember({"L0", "L1", "L2"}));
  model->add_option("--long-steps", flags->long_steps,
                    "decode steps over which the resident size is watched");
  model->callback([flags, &exit_code] { exit_code = run_model(*flags); });
  auto* serve = add_bench(*bench, "serve",
                          "Gateway and actors without a computation, beside the bare HTTP server; "
                          "start of a node.",
                          flags);
  serve
      ->add_option("--model", flags->model,
                   "checkpoint for the chat codec and the start (default: the bundled one)")
      ->envname(model_folder_variable);
  auto* kernels =
      add_bench(*bench, "kernels",
                "The limits of this machine, and which share of them each op reaches.", flags);
  kernels->add_option("--only", flags->only, "cases with this in their name");
  kernels->add_option("--threads", flags->threads, "beside one thread (default: all cores)")
      ->check(CLI::Range(1u, kernels::most_device_threads));
  kernels->callback([flags, &exit_code] { exit_code = run_kernels(*flags); });
  serve->callback([flags, &exit_code] { exit_code = run_serve(*flags); });
  auto* recipe = add_bench(
      *bench, "recipe", "From a request's bytes to tokens, and from tokens to its events.", flags);
  recipe->add_option("--tokenizer", flags->tokenizer,
                     "a tokenizer.json (default: the bundled one)");
  recipe->add_option("--text", flags->text, "a UTF-8 file to encode (default: made-up text)");
  recipe->callback([flags, &exit_code] { exit_code = run_recipe(*flags); });
  add_bench_kv(*bench, exit_code);
}

}  // namespace deepinfer
