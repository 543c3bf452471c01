#include "actors/node/commands.hpp"
#include "actors/node/node_config.hpp"
#include "actors/node/node_process.hpp"
#include "actors/node/stop_signals.hpp"
#include "runtime/net/registry.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace deepinfer {
namespace {

/// Flags as given; they win over file and environment.
struct node_flags {
  std::string roles, model, served_name, join, listen, http, console, cluster, config;
  std::vector<std::string> set;
  bool show_config = false;
};

result<std::string> read_file(const std::string& path) {
  std::ifstream in{path, std::ios::binary};
  if (!in || !std::filesystem::is_regular_file(path))
    return failure{error_code::not_found, "cannot read " + path + ": no such file"};
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

result<void> apply_address(process_config& config, const node_flags& flags) {
  if (flags.listen.empty()) return {};
  const auto where = parse_host_port(flags.listen);
  if (!where) return where.error();
  config.fabric.listen_host = where->host;
  config.fabric.listen_port = where->port;
  config.fabric.port_may_move = false;
  return {};
}

result<void> apply_flags(process_config& config, const node_flags& flags) {
  const std::pair<const std::string&, const char*> texts[] = {
      {flags.roles, "node.roles"},
      {flags.model, "node.model"},
      {flags.served_name, "node.served_name"},
      {flags.join, "node.join"},
      {flags.cluster, "node.cluster"},
      {flags.http, "http.listen"},
      {flags.console, "console_http.listen"}};
  for (const auto& [value, key] : texts)
    if (!value.empty())
      if (auto done = config.schema().set(key, value); !done) return done;
  if (!flags.http.empty()) config.http.port_tries = 1;
  if (!flags.console.empty()) config.console_http.port_tries = 1;
  for (const std::string& one : flags.set) {
    const size_t equals = one.find('=');
    if (equals == std::string::npos)
      return failure{error_code::invalid_argument,
                     "--set takes section.key=value, not '" + one + "'"};
    if (auto done = config.schema().set(one.substr(0, equals), one.substr(equals + 1)); !done)
      return done;
  }
  return apply_address(config, flags);
}

result<void> check_seeds(const process_config& config) {
  for (const std::string& seed : config.node.join)
    if (const auto where = parse_host_port(seed); !where || where->port == 0)
      return failure{error_code::invalid_argument,
                     "'" + seed + "' is no address to join; write host:port, as in 10.0.0.1:7400"};
  return {};
}

result<void> load_config(process_config& config, const node_flags& flags) {
  if (!flags.config.empty()) {
    const auto text = read_file(flags.config);
    if (!text) return text.error();
    if (auto done = config.schema().read_toml(*text, flags.config); !done) return done;
  }
  if (auto done = config.schema().read_environment(environment_variables()); !done) return done;
  if (auto done = apply_flags(config, flags); !done) return done;
  return check_seeds(config);
}

/// Of a node that did not start: also an address that cannot be had (`unreachable`, or no port
/// left: `no_capacity`) is a setting to change.
int exit_code_of_start(error_code code) {
  return code == error_code::internal || code == error_code::deadline_exceeded ? exit_failed
                                                                               : exit_usage;
}

int run_node(const node_flags& flags) {
  process_config config;
  if (const auto loaded = load_config(config, flags); !loaded) {
    std::fprintf(stderr, "deepinfer node: %s\n", loaded.error().detail.c_str());
    return exit_usage;
  }
  if (flags.show_config) {
    if (!config.node.secret.empty()) config.node.secret = "(set, not shown)";
    std::fputs(config.schema().effective().c_str(), stdout);
    return exit_done;
  }
  stop_signals signals;
  auto node = node_process::start(config, signals.asker());
  if (!node) {
    std::fprintf(stderr, "deepinfer node: %s\n", node.error().detail.c_str());
    return exit_code_of_start(node.error().code);
  }
  signals.started();
  signals.wait();
  (*node)->stop();
  return (*node)->lost() ? exit_failed : exit_done;
}

}  // namespace

void add_node_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "node", "Starts one actor node; nodes of one cluster name find each other.");
  auto flags = std::make_shared<node_flags>();
  command->add_option("--roles", flags->roles,
                      "gateway,prefill,decode,controller,kvstore or all (default all)");
  command->add_option("--model", flags->model,
                      "folder of the checkpoint (default: the bundled tiny-v41)");
  command->add_option("--served-name", flags->served_name,
                      "name of the model in requests (default: the folder's name)");
  command->add_option("--join", flags->join,
                      "addresses of living nodes, host:port,... (default: found by themselves)");
  command->add_option("--listen", flags->listen,
                      "fabric address (default 127.0.0.1:7400, or the next free port)");
  command->add_option("--http", flags->http,
                      "address of the gateway (default 127.0.0.1:8000, or the next free port)");
  command->add_option(
      "--console", flags->console,
      "address of console and metrics (default 127.0.0.1:8001, or the next free port)");
  command->add_option("--cluster", flags->cluster, "cluster name (default: default)");
  command->add_option("--config", flags->config, "settings, a TOML file");
  command->add_option("--set", flags->set, "one setting: section.key=value; may be repeated");
  command->add_flag("--show-config", flags->show_config,
                    "print all settings as they would be used, and stop");
  command->callback([flags, &exit_code] { exit_code = run_node(*flags); });
}

}  // namespace deepinfer
