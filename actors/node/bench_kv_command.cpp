#include "actors/node/bench_kv_command.hpp"

#include "actors/bench/kv_fetch_sides.hpp"
#include "actors/bench/kv_figures.hpp"
#include "actors/bench/kv_replay.hpp"
#include "actors/node/bench_output.hpp"
#include "actors/node/bundled_model.hpp"
#include "actors/node/commands.hpp"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <string>

namespace deepinfer {
namespace {

struct kv_flags {
  bool json = false;
  bool smoke = false;
  std::string only, peer, durable = "index";
  bench::kv_plan plan;
  std::string store = "memory";
  bench::replay_plan replay;
};

void shrink(bench::kv_plan& plan) {
  plan.rounds = 1;
  plan.index_blocks = 20'000;
  plan.index_prompts = 20;
  plan.disk_blocks = 8;
  plan.batch = 4;
  plan.restart_blocks = 2'000;
  plan.fetch_blocks = 70;
  plan.persist_steps = 140;
}

int run_kv(const kv_flags& flags) {
  if (!flags.peer.empty()) {
    const auto served = bench::serve_fetch_side(flags.peer);
    if (!served) std::fprintf(stderr, "deepinfer bench: %s\n", served.error().detail.c_str());
    return served ? exit_done : exit_failed;
  }
  const auto form = flags.json ? figure_form::json_lines : figure_form::table;
  bench::kv_plan plan = flags.plan;
  if (plan.folder.empty()) plan.folder = std::filesystem::temp_directory_path().string();
  if (plan.model.empty()) plan.model = bundled_model().string();
  if (!flags.replay.traces.empty()) {
    bench::replay_plan replay = flags.replay;
    replay.folder = plan.folder;
    if (flags.store == "rocks") replay.store = bench::replay_plan::kind::rocks;
    return show_figures(bench::replay_traces(replay), form);
  }
  if (flags.smoke) shrink(plan);
  if (!flags.only.empty()) {
    if (flags.only != "match") plan.index_blocks = 0;
    if (flags.only != "disk") plan.disk_blocks = 0;
    if (flags.only != "restart") plan.restart_blocks = 0;
    if (flags.only != "fetch") plan.fetch_blocks = 0;
    if (flags.only != "persist") plan.persist_steps = 0;
  }
  plan.durable = flags.durable == "process" ? storage::durability::process
                 : flags.durable == "full"  ? storage::durability::full
                                            : storage::durability::index;
  return show_figures(bench::measure_kv_figures(plan), form);
}

void add_replay(CLI::App& kv, kv_flags& flags) {
  kv.add_option("--trace", flags.replay.traces,
                "instead: replays traces of requests (.jsonl, .jsonl.zst or a folder of them) "
                "through stores, with blocks of 64 bytes and the time of the trace")
      ->check(CLI::ExistingPath);
  kv.add_option("--stores", flags.replay.stores, "to replay through, beside one alone")
      ->check(CLI::Range(1u, 64u));
  kv.add_option("--store", flags.store, "in memory, or on the disk of --path")
      ->check(CLI::IsMember({"memory", "rocks"}));
  kv.add_option("--requests", flags.replay.most_requests, "of each trace (default: all)")
      ->check(CLI::PositiveNumber);
}

}  // namespace

void add_bench_kv(CLI::App& bench, int& exit_code) {
  auto* kv = bench.add_subcommand(
      "kv",
      "Stores of KV blocks: matching, bytes on a disk beside fio, opening with many records, "
      "fetching from another process.");
  auto flags = std::make_shared<kv_flags>();
  bench::kv_plan& plan = flags->plan;
  kv->add_flag("--json", flags->json, "one JSON line per figure");
  kv->add_flag("--smoke", flags->smoke, "the smallest counts: that it runs, not how fast");
  kv->add_option("--path", plan.folder,
                 "a folder of the disk to measure; what is written there is removed (default: that "
                 "of temporary files)")
      ->check(CLI::ExistingDirectory);
  kv->add_option("--only", flags->only, "one part alone")
      ->check(CLI::IsMember({"match", "disk", "restart", "fetch", "persist"}));
  kv->add_option("--durable", flags->durable, "what a write waits for")
      ->check(CLI::IsMember({"process", "index", "full"}));
  kv->add_option("--model", plan.model,
                 "whose decode steps are measured while their blocks are stored")
      ->check(CLI::ExistingDirectory);
  kv->add_option("--peer", flags->peer)->group("");  // how it starts itself as the other sides
  kv->add_option("--rounds", plan.rounds, "of disk, restart, fetch and persist")
      ->check(CLI::Range(1, 99));
  kv->add_option("--index-blocks", plan.index_blocks, "that a prompt is matched against")
      ->check(CLI::Range(1u, 1'000'000'000u));
  kv->add_option("--disk-blocks", plan.disk_blocks, "of 113,920 bytes, per round")
      ->check(CLI::Range(1u, 1'000'000u));
  kv->add_option("--restart-blocks", plan.restart_blocks, "records that a store is opened with")
      ->check(CLI::Range(1u, 1'000'000'000u));
  add_replay(*kv, *flags);
  kv->callback([flags, &exit_code] { exit_code = run_kv(*flags); });
}

}  // namespace deepinfer
