#include "actors/console/topology_reading.hpp"

#include "runtime/recipe/json_value.hpp"

#include <algorithm>
#include <optional>

namespace deepinfer::view {
namespace {

using recipe::json_array;
using recipe::json_object;
using recipe::json_value;

// The largest cluster the protocol allows, each node with its most actors, stays below these.
constexpr recipe::json_limits json_bounds{size_t{64} << 20, 16, 4'000'000};

const json_value* find(const json_object& object, std::string_view key) {
  for (const recipe::json_member& member : object)
    if (member.key == key) return &member.value;
  return nullptr;
}

std::string text(const json_object& object, std::string_view key) {
  const json_value* found = find(object, key);
  const auto* value = found != nullptr ? found->as<std::string>() : nullptr;
  return value != nullptr ? *value : std::string{};
}

/// Numbers that do not fit are 0: the console shows them, nothing is decided by them.
uint64_t count(const json_object& object, std::string_view key) {
  const json_value* found = find(object, key);
  if (found == nullptr) return 0;
  if (const auto* value = found->as<uint64_t>()) return *value;
  const auto* value = found->as<int64_t>();
  return value != nullptr && *value > 0 ? static_cast<uint64_t>(*value) : 0;
}

double number(const json_object& object, std::string_view key) {
  const json_value* found = find(object, key);
  if (found != nullptr)
    if (const auto* value = found->as<double>()) return *value;
  return static_cast<double>(count(object, key));
}

template <class Visit>
void each_object(const json_object& object, std::string_view key, const Visit& visit) {
  const json_value* found = find(object, key);
  const auto* list = found != nullptr ? found->as<json_array>() : nullptr;
  if (list == nullptr) return;
  for (const json_value& item : *list)
    if (const auto* entry = item.as<json_object>()) visit(*entry);
}

std::vector<std::string> texts(const json_object& object, std::string_view key) {
  std::vector<std::string> out;
  const json_value* found = find(object, key);
  const auto* list = found != nullptr ? found->as<json_array>() : nullptr;
  if (list == nullptr) return out;
  for (const json_value& item : *list)
    if (const auto* value = item.as<std::string>()) out.push_back(*value);
  return out;
}

actor_entry read_actor(const json_object& object) {
  actor_entry actor{text(object, "kind"),  count(object, "id"),      text(object, "node"),
                    text(object, "state"), count(object, "mailbox"), {}};
  const json_value* found = find(object, "counters");
  const auto* counters = found != nullptr ? found->as<json_object>() : nullptr;
  if (counters == nullptr) return actor;
  for (const recipe::json_member& member : *counters)
    if (const auto* value = member.value.as<int64_t>()) actor.counters[member.key] = *value;
  return actor;
}

result<json_value> read_object(std::string_view json, std::string_view what) {
  auto parsed = recipe::parse_json(json, json_bounds);
  if (parsed && parsed->as<json_object>() != nullptr) return parsed;
  std::string why = parsed ? "not an object" : parsed.error().detail;
  return failure{error_code::corrupt, "the " + std::string{what} + " is not valid (" + why +
                                          "): is this the console address of a deepinfer node?"};
}

bool is_engine(const std::string& kind) {
  return kind == "prefill" || kind == "decode";
}

std::optional<double> rate(uint64_t before, uint64_t now, double seconds) {
  if (seconds <= 0 || now < before) return std::nullopt;
  return static_cast<double>(now - before) / seconds;
}

}  // namespace

result<topology> parse_topology(std::string_view json) {
  const auto parsed = read_object(json, "topology");
  if (!parsed) return parsed.error();
  const json_object& object = *parsed->as<json_object>();
  if (find(object, "nodes") == nullptr || find(object, "actors") == nullptr)
    return failure{error_code::corrupt,
                   "the answer is no topology: is this the console address of a deepinfer node?"};
  topology out{text(object, "cluster"), text(object, "self"), {}, {}, {}, {}};
  for (const bool only_fetches : {false, true})
    each_object(
        object, only_fetches ? "fetch_processes" : "nodes",
        [&out, only_fetches](const json_object& node) {
          out.nodes.push_back({text(node, "id"), text(node, "address"), texts(node, "roles"),
                               count(node, "epoch"), text(node, "state"), number(node, "uptime_s"),
                               only_fetches});
        });
  each_object(object, "actors",
              [&out](const json_object& actor) { out.actors.push_back(read_actor(actor)); });
  each_object(object, "edges", [&out](const json_object& edge) {
    out.edges.push_back({text(edge, "from"), text(edge, "to"), count(edge, "messages")});
  });
  out.unreachable = texts(object, "unreachable");
  return out;
}

result<event_lines> parse_events(std::string_view json) {
  const auto parsed = read_object(json, "event list");
  if (!parsed) return parsed.error();
  const json_object& object = *parsed->as<json_object>();
  return event_lines{text(object, "node"), texts(object, "lines")};
}

std::string end_point(const actor_entry& actor) {
  return std::to_string(actor.id) + "@" + actor.node;
}

rates rates_between(const topology& before,
                    const topology& now,
                    std::chrono::duration<double> between) {
  rates out;
  std::map<std::pair<std::string, std::string>, uint64_t> old_edges;
  for (const edge_entry& edge : before.edges) old_edges[{edge.from, edge.to}] = edge.messages;
  for (const edge_entry& edge : now.edges) {
    const auto old = old_edges.find({edge.from, edge.to});
    if (old == old_edges.end()) continue;
    if (const auto r = rate(old->second, edge.messages, between.count()))
      out.edges[old->first] = *r;
  }
  std::map<std::string, const actor_entry*> old_actors;
  for (const actor_entry& actor : before.actors) old_actors[end_point(actor)] = &actor;
  for (const actor_entry& actor : now.actors) {
    const auto old = old_actors.find(end_point(actor));
    if (old == old_actors.end()) continue;
    for (const auto& [name, value] : actor.counters) {
      const auto was = old->second->counters.find(name);
      if (was == old->second->counters.end() || was->second < 0 || value < 0) continue;
      if (const auto r = rate(static_cast<uint64_t>(was->second), static_cast<uint64_t>(value),
                              between.count()))
        out.counters[{old->first, name}] = *r;
    }
  }
  return out;
}

totals totals_of(const topology& now, const rates& speed) {
  totals out;
  for (const node_entry& node : now.nodes) {
    const bool alive = node.state == "alive" || node.state == "suspect";
    if (node.only_fetches)
      out.fetch_processes += alive ? 1 : 0;
    else
      ++(alive ? out.nodes_alive : out.nodes_gone);
  }
  for (const actor_entry& actor : now.actors) {
    out.requests += actor.kind == "request" ? 1 : 0;
    out.waiting_messages += actor.mailbox;
    const auto tokens = speed.counters.find({end_point(actor), "tokens"});
    if (is_engine(actor.kind) && tokens != speed.counters.end()) out.tokens_per_s += tokens->second;
  }
  for (const auto& [edge, per_second] : speed.edges) out.messages_per_s += per_second;
  return out;
}

}  // namespace deepinfer::view
