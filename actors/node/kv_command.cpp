#include "actors/cache/kv_store_config.hpp"
#include "actors/node/commands.hpp"
#include "actors/node/kv_orders_command.hpp"
#include "runtime/recipe/json_value.hpp"
#include "storage/folder/store_folder.hpp"
#include "storage/verify/verify_store.hpp"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace deepinfer {
namespace {

struct verify_flags {
  std::string folder, segments;
  uint32_t group_blocks = kv_store_config{}.store.group_blocks;
  bool json = false;
};

/// A line that is written over, when somebody looks.
void show_progress(uint64_t done, uint64_t all) {
  if (::isatty(STDERR_FILENO) != 1) return;
  std::fprintf(stderr, "\r%llu of %llu blocks%s", static_cast<unsigned long long>(done),
               static_cast<unsigned long long>(all), done == all ? "\n" : "");
}

/// Kinds of what is wrong, as JSON and people call them.
std::vector<std::tuple<const char*, const char*, uint64_t>> kinds_of(
    const storage::verify_report& report) {
  return {{"wrong_names", "names", report.wrong_names},
          {"damaged_index", "damages of the index", report.damaged_index},
          {"unreadable_records", "unreadable records", report.unreadable_records},
          {"broken_chains", "broken chains", report.broken_chains},
          {"wrong_contents", "wrong contents", report.wrong_contents},
          {"misplaced", "misplaced blocks", report.misplaced},
          {"wrong_bytes", "wrong bytes", report.wrong_bytes},
          {"wrong_frames", "headers or footers", report.wrong_frames}};
}

std::string as_json(const storage::verify_report& report) {
  const std::pair<const char*, uint64_t> numbers[] = {{"blocks", report.blocks},
                                                      {"bytes", report.bytes},
                                                      {"scopes", report.scopes},
                                                      {"segments", report.segments},
                                                      {"unnamed_files", report.unnamed_files},
                                                      {"wrong", report.wrong()}};
  std::string out = "{";
  for (const auto& [name, value] : numbers)
    out += '"' + std::string{name} + "\": " + std::to_string(value) + ", ";
  for (const auto& [name, words, value] : kinds_of(report))
    out += '"' + std::string{name} + "\": " + std::to_string(value) + ", ";
  out += "\"problems\": [";
  for (size_t i = 0; i < report.first_problems.size(); ++i) {
    if (i > 0) out += ", ";
    recipe::append_json_string(out, report.first_problems[i]);
  }
  return out + "]}\n";
}

std::string as_text(const storage::verify_report& report) {
  std::string out = std::to_string(report.blocks) + " blocks, " + std::to_string(report.bytes) +
                    " bytes, " + std::to_string(report.scopes) + " tenants, " +
                    std::to_string(report.segments) + " files\n";
  if (report.wrong() == 0) return out + "all is well\n";
  std::string list;
  for (const auto& [name, words, value] : kinds_of(report))
    if (value > 0) list += (list.empty() ? "" : ", ") + std::to_string(value) + " " + words;
  out += std::to_string(report.wrong()) + " wrong: " + list + "\n";
  for (const std::string& problem : report.first_problems) out += "  " + problem + '\n';
  if (report.broken_chains > 0)
    out += "A store that was run with another kvstore.group_blocks needs --group-blocks.\n";
  return out + "A node that opens this store mends or drops what is wrong: it is a cache.\n";
}

int refuse(const std::string& why) {
  std::fprintf(stderr, "deepinfer kv verify: %s\n", why.c_str());
  return exit_usage;
}

int run_verify(const verify_flags& flags) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  storage::verify_options options;
  options.index_folder = flags.folder + "/index";
  options.segments_folder = flags.segments.empty() ? flags.folder + "/segments" : flags.segments;
  options.group_blocks = flags.group_blocks;
  options.home = flags.folder;
  options.progress = show_progress;
  if (!fs::is_directory(options.index_folder, ignored))
    return refuse(flags.folder + " holds no KV store; name the folder that has 'index' in it, as " +
                  "the log line kvstore.opened says");
  if (!fs::is_directory(options.segments_folder, ignored))
    return refuse("there is no folder " + options.segments_folder +
                  "; name that of a shared store's blocks with --segments");
  if (storage::is_owned(flags.folder))
    return refuse(flags.folder + " belongs to a running node; end that node first");
  const auto report = storage::verify_store(options);
  if (!report) {
    std::fprintf(stderr, "deepinfer kv verify: %s\n", report.error().detail.c_str());
    return exit_failed;
  }
  std::fputs((flags.json ? as_json(*report) : as_text(*report)).c_str(), stdout);
  return report->wrong() == 0 ? exit_done : exit_failed;
}

}  // namespace

void add_kv_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("kv", "Looks after KV stores.");
  command->require_subcommand(1);
  add_kv_orders(*command, exit_code);
  auto* verify = command->add_subcommand(
      "verify", "Reads a store that no node runs, and says what is wrong with it; writes nothing.");
  auto flags = std::make_shared<verify_flags>();
  verify->add_option("folder", flags->folder, "the store's folder, as in .../kv/0")
      ->required()
      ->type_name("DIR");
  verify->add_option("--segments", flags->segments,
                     "folder of the blocks of a shared store (default: DIR/segments)");
  verify
      ->add_option("--group-blocks", flags->group_blocks,
                   "kvstore.group_blocks that it was run with (default 64)")
      ->check(CLI::Range(1, 65536));
  verify->add_flag("--json", flags->json, "print JSON");
  verify->footer(
      "Exit codes: 0, all is well; 1, something is wrong, or could not be read; 2, no store there, "
      "its node runs, or wrong flags.");
  verify->callback([flags, &exit_code] { exit_code = run_verify(*flags); });
}

}  // namespace deepinfer
