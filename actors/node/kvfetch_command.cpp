#include "actors/node/commands.hpp"
#include "actors/node/fetch_process.hpp"
#include "actors/node/node_config.hpp"
#include "actors/node/node_process.hpp"
#include "actors/node/stop_signals.hpp"

#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>

namespace deepinfer {
namespace {

// A read that hangs in a file system must not keep a process that nobody needs.
constexpr unsigned end_within_s = 5;

int run_fetch() {
  process_config config;
  const std::string settings = fetch_parent::settings();
  if (settings.empty()) {
    std::fputs("deepinfer kvfetch: started by nodes, which hand it their settings\n", stderr);
    return exit_usage;
  }
  const auto cannot = [](const failure& why) {
    fetch_parent::say_failed(why);  // the node logs it
    return exit_usage;
  };
  if (const auto read = config.schema().read_toml(settings, "settings of the node"); !read)
    return cannot(read.error());
  config.node.roles = {"fetch"};
  stop_signals signals;
  // Ends with the process. The node that started it may be gone before it is up.
  std::thread{[stop = signals.asker()] {
    fetch_parent::wait_gone();
    ::alarm(end_within_s);
    stop();
  }}.detach();
  auto node = node_process::start(config, signals.asker());
  if (!node) return cannot(node.error());
  signals.started();
  fetch_parent::say_up();
  signals.wait();
  ::alarm(end_within_s);
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
