#include "actors/node/commands.hpp"
#include "actors/node/node_config.hpp"
#include "actors/node/node_process.hpp"
#include "actors/node/stop_signals.hpp"

#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>

namespace deepinfer {
namespace {

/// Everything up to a zero byte; empty when the pipe ended before.
std::string read_settings() {
  std::string text;
  for (char c = 0; text.size() < config_schema::max_text_bytes;) {
    if (::read(STDIN_FILENO, &c, 1) != 1) return {};
    if (c == '\0') return text;
    text.push_back(c);
  }
  return {};
}

int run_fetch() {
  process_config config;
  const std::string settings = read_settings();
  if (settings.empty()) {
    std::fputs("deepinfer kvfetch: started by nodes, with their settings on its input\n", stderr);
    return exit_usage;
  }
  if (const auto read = config.schema().read_toml(settings, "settings of the node"); !read) {
    std::fprintf(stderr, "deepinfer kvfetch: %s\n", read.error().detail.c_str());
    return exit_usage;
  }
  config.node.roles = {"fetch"};
  stop_signals signals;
  auto node = node_process::start(config, signals.asker());
  if (!node) {
    std::fprintf(stderr, "deepinfer kvfetch: %s\n", node.error().detail.c_str());
    return exit_failed;
  }
  signals.started();
  // Ends with the process; the node that started it is gone when its end of the pipe is.
  std::thread{[stop = signals.asker()] {
    for (char c = 0; ::read(STDIN_FILENO, &c, 1) > 0;) {
    }
    stop();
  }}.detach();
  signals.wait();
  (*node)->stop();
  return (*node)->lost() ? exit_failed : exit_done;
}

}  // namespace

void add_kvfetch_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("kvfetch", "Fetches KV blocks; started by nodes.");
  command->group("");  // not in the help
  command->callback([&exit_code] { exit_code = run_fetch(); });
}

}  // namespace deepinfer
