#include "actors/console/console_view.hpp"
#include "actors/console/kv_view.hpp"
#include "actors/console/metrics_text.hpp"
#include "actors/node/cluster_address.hpp"
#include "actors/node/commands.hpp"
#include "actors/node/live_console.hpp"
#include "actors/node/terminal.hpp"
#include "runtime/recipe/json_value.hpp"

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace deepinfer {
namespace {

struct console_flags {
  cluster_target target;
  std::string verb, node;
  bool json = false;
  bool once = false;
};

using lines = std::vector<std::string>;

constexpr int speed_window_ms = 1000;

void print(const lines& text) {
  for (const std::string& line : text) {
    std::fputs(line.c_str(), stdout);
    std::fputc('\n', stdout);
  }
}

/// What a program reads stays byte for byte what the server wrote; only a terminal is protected.
void print_json(const std::string& json) {
  const std::string text = ::isatty(STDOUT_FILENO) == 1 ? view::printable_json(json) : json;
  std::fputs(text.c_str(), stdout);
  if (!text.ends_with('\n')) std::fputc('\n', stdout);
}

view::look look_now() {
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  return {is_terminal ? screen_size_of(STDOUT_FILENO).columns : view::any_width,
          palette_for(STDOUT_FILENO)};
}

lines draw_topology(const view::reading& what, const view::look& how) {
  lines out = view::draw_nodes(what, how);
  for (const lines& part : {view::draw_actors(what, how), view::draw_edges(what, how)}) {
    out.emplace_back();
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

lines draw_once(const view::reading& what, const view::look& how) {
  lines out{view::summary_line(what, how)};
  for (std::string& line : view::draw_cluster(what, how)) out.push_back(std::move(line));
  return out;
}

/// The part of the topology that `verb` is about, under its name, as the server wrote it.
result<std::string> actors_json(const std::string& topology, const std::string& verb) {
  const auto parsed = recipe::parse_json(topology, {size_t{64} << 20, 16, 4'000'000});
  if (!parsed) return parsed.error();
  recipe::json_object out;
  const auto kind_is_request = [](const recipe::json_value& actor) {
    const auto* object = actor.as<recipe::json_object>();
    if (object == nullptr) return false;
    for (const auto& [key, value] : *object)
      if (const auto* text = value.as<std::string>(); key == "kind" && text != nullptr)
        return *text == "request";
    return false;
  };
  for (const auto& [key, value] : *parsed->as<recipe::json_object>()) {
    if (key == "cluster") out.push_back({key, value});
    const auto* list = value.as<recipe::json_array>();
    if (key != "actors" || list == nullptr) continue;
    recipe::json_array chosen;
    for (const recipe::json_value& actor : *list)
      if (verb == "actors" || kind_is_request(actor)) chosen.push_back(actor);
    out.push_back({verb, recipe::json_value{std::move(chosen)}});
  }
  std::string text;
  recipe::append_spaced_json(text, recipe::json_value{std::move(out)});
  return text;
}

/// Looks twice, so that it can tell speeds.
int show_kv(const console_flags& flags, const std::vector<http_url>& bases) {
  using steady = std::chrono::steady_clock;
  std::optional<view::topology> before;
  steady::time_point begun;
  while (true) {
    const auto body = fetch_any(bases, "/api/topology");
    auto parsed = body ? view::parse_topology(*body) : result<view::topology>{body.error()};
    if (!parsed) return report("console", parsed.error());
    const auto at = steady::now();
    if (!before) {
      before = *std::move(parsed);
      begun = at;
      static_cast<void>(::poll(nullptr, 0, speed_window_ms));
      continue;
    }
    view::rates speed = view::rates_between(*before, *parsed, at - begun);
    const view::reading what{*std::move(parsed), std::move(speed)};
    if (flags.json)
      print_json(view::kv_json(what));
    else
      print(view::draw_kv(what, look_now()));
    return exit_done;
  }
}

int show_topology(const console_flags& flags, const std::vector<http_url>& bases) {
  const auto body = fetch_any(bases, "/api/topology");
  if (!body) return report("console", body.error());
  auto parsed = view::parse_topology(*body);
  if (!parsed) return report("console", parsed.error());
  const std::string& verb = flags.verb;
  if (flags.json) {
    const auto json = verb.empty() || verb == "topology" ? body : actors_json(*body, verb);
    if (!json) return report("console", json.error());
    print_json(*json);
    return exit_done;
  }
  const view::reading what{*std::move(parsed), {}};
  const view::look how = look_now();
  if (verb.empty()) {
    print(draw_once(what, how));
  } else if (verb == "topology") {
    print(draw_topology(what, how));
  } else {
    print(verb == "actors" ? view::draw_actors(what, how) : view::draw_requests(what, how));
  }
  return exit_done;
}

/// Every node keeps its own events: all that can be found are asked.
int show_events(const console_flags& flags, const std::vector<http_url>& bases) {
  std::vector<view::event_lines> events;
  std::string json;
  failure last;
  for (const http_url& base : bases) {
    const auto body = fetch(base, "/api/events");
    auto parsed = body ? view::parse_events(*body) : result<view::event_lines>{body.error()};
    if (!parsed) {
      last = parsed.error();
      static_cast<void>(report("console", last));
      continue;
    }
    events.push_back(*std::move(parsed));
    json += (json.empty() ? "" : ",") + *body;
  }
  if (events.empty())
    return last.code == error_code::internal || last.code == error_code::corrupt ? exit_failed
                                                                                 : exit_unreachable;
  if (flags.json) {
    print_json("{\"nodes\":[" + json + "]}");
  } else {
    print(view::draw_events(events, look_now()));
  }
  return exit_done;
}

int show_metrics(const console_flags& flags, const std::vector<http_url>& bases) {
  const auto body = fetch_any(bases, "/metrics");
  if (!body) return report("console", body.error());
  if (flags.json) {
    const auto json = view::metrics_json(*body);
    if (!json) return report("console", json.error());
    print_json(*json);
    return exit_done;
  }
  const std::string text = ::isatty(STDOUT_FILENO) == 1 ? view::printable_lines(*body) : *body;
  std::fputs(text.c_str(), stdout);
  return exit_done;
}

int refuse(const std::string& why) {
  return report("console", {error_code::invalid_argument, why});
}

int run_console(const console_flags& flags) {
  if (flags.verb == "drain")
    return report("console", {error_code::unsupported,
                              "drain is not in this release; end the node with SIGTERM instead: it "
                              "finishes its open requests first"});
  if (!flags.node.empty()) return refuse("'" + flags.node + "' is too much after " + flags.verb);
  if (flags.once && !flags.verb.empty())
    return refuse("--once belongs to the live view, which has no verb");
  if (flags.verb.empty() && !flags.once) {
    if (flags.json)
      return refuse("--json needs a verb: topology, actors, requests, kv, events or metrics");
    // said before anybody is asked
    if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1)
      return refuse("the live view needs a terminal; use a verb such as topology, or --once");
    return run_live_console(flags.target);
  }
  const auto bases = console_addresses(flags.target);
  if (!bases) return report("console", bases.error());
  if (flags.verb == "events") return show_events(flags, *bases);
  if (flags.verb == "metrics") return show_metrics(flags, *bases);
  if (flags.verb == "kv") return show_kv(flags, *bases);
  return show_topology(flags, *bases);
}

}  // namespace

void add_console_command(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "console", "Shows what the actors of a cluster are doing; without a verb: live, until q.");
  auto flags = std::make_shared<console_flags>();
  command
      ->add_option("verb", flags->verb,
                   "topology, actors, requests, kv (looks for a second, to tell speeds), events, "
                   "metrics, or drain NODE")
      ->type_name("")
      ->check(
          CLI::IsMember({"topology", "actors", "requests", "kv", "events", "metrics", "drain"}));
  command->add_option("node", flags->node, "the node of drain (not in this release)")
      ->type_name("");
  auto* cluster = command->add_option("--cluster", flags->target.cluster,
                                      "a cluster of this machine (default: the only one)");
  command->add_option("--url", flags->target.url, "console address of any node, http://host:port")
      ->excludes(cluster);
  command->add_flag("--json", flags->json, "print JSON instead of tables");
  command->add_flag("--once", flags->once, "print one picture of the live view and end");
  command->callback([flags, &exit_code] { exit_code = run_console(*flags); });
}

}  // namespace deepinfer
