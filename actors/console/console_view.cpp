#include "actors/console/console_view.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace deepinfer::view {
namespace {

/// In the order in which data flows; what a later release adds comes last.
size_t kind_rank(const std::string& kind) {
  // clang-format off
  static const std::vector<std::string> order{
      "gateway",          "codec",    "request",         "vision_balancer",
      "prefill_balancer", "vision",   "decode_balancer", "expert_balancer",
      "prefill",          "decode",   "batch",           "expert_group",
      "kv_check",         "kv_fetch", "kv_store",        "kv_sweep",
      "kv_mover",         "ring_host", "node",           "membership",
      "fleet",            "autoscaler", "console"};
  // clang-format on
  return static_cast<size_t>(std::find(order.begin(), order.end(), kind) - order.begin());
}

std::vector<const actor_entry*> sorted(const topology& now) {
  std::vector<const actor_entry*> actors;
  for (const actor_entry& actor : now.actors) actors.push_back(&actor);
  std::sort(actors.begin(), actors.end(), [](const actor_entry* a, const actor_entry* b) {
    return std::tuple(a->node, kind_rank(a->kind), a->kind, a->id) <
           std::tuple(b->node, kind_rank(b->kind), b->kind, b->id);
  });
  return actors;
}

/// What an actor sends: per second, or all so far on the first reading.
std::string sent(const std::map<std::string, uint64_t>& all,
                 const rates& speed,
                 const std::string& from) {
  if (speed.edges.empty()) {
    const auto found = all.find(from);
    return found == all.end() ? "-" : short_count(static_cast<double>(found->second));
  }
  double sum = 0;
  bool is_known = false;
  for (auto at = speed.edges.lower_bound({from, ""}); at != speed.edges.end(); ++at) {
    if (at->first.first != from) break;
    sum += at->second;
    is_known = true;
  }
  return is_known ? short_count(sum) : "-";
}

tone mailbox_tone(uint64_t depth) {
  if (depth >= 100) return tone::bad;
  return depth >= 10 ? tone::warn : tone::plain;
}

tone node_tone(const std::string& state) {
  if (state == "alive") return tone::good;
  return state == "suspect" ? tone::warn : tone::dim;
}

bool is_silent(const topology& now, const std::string& node) {
  return std::find(now.unreachable.begin(), now.unreachable.end(), node) != now.unreachable.end();
}

/// The node is named where there are several.
std::vector<std::string> actor_table(const std::vector<const actor_entry*>& actors,
                                     const reading& what,
                                     const look& how) {
  const bool names_node = what.now.nodes.size() > 1;
  std::map<std::string, uint64_t> all;
  for (const edge_entry& edge : what.now.edges) all[edge.from] += edge.messages;
  std::vector<std::vector<cell>> rows;
  for (const actor_entry* actor : actors) {
    const tone state = actor->state.starts_with("busy") ? tone::warn : tone::plain;
    rows.push_back({{printable(actor->kind), tone::accent},
                    {std::to_string(actor->id)},
                    {names_node ? short_node(actor->node) : "", tone::dim},
                    {printable(actor->state), state},
                    {std::to_string(actor->mailbox), mailbox_tone(actor->mailbox)},
                    {sent(all, what.speed, end_point(*actor))},
                    {counters_text(*actor, what.speed), tone::dim}});
  }
  std::vector<column> columns{{"KIND"},
                              {"ID", align::right},
                              {"NODE", align::left, 0, 2},
                              {"STATE", align::left, 16},
                              {"MAILBOX", align::right},
                              {what.speed.edges.empty() ? "SENT" : "SENT/S", align::right, 0, 1},
                              {"COUNTERS", align::left, 12, 3}};
  if (!names_node) {
    columns.erase(columns.begin() + 2);
    for (auto& row : rows) row.erase(row.begin() + 2);
  }
  return draw_table(std::move(columns), std::move(rows), how.width, how.colours);
}

/// How ends of edges are called: kind and number, and the node if there are several.
class end_names {
public:
  explicit end_names(const topology& now)
      : names_node_(now.nodes.size() > 1), silent_(now.unreachable.begin(), now.unreachable.end()) {
    for (const actor_entry& actor : now.actors) kinds_[end_point(actor)] = actor.kind;
  }
  [[nodiscard]] std::string operator()(const std::string& end) const {
    const size_t at = end.find('@');
    const std::string id = end.substr(0, at);
    const std::string node = at == std::string::npos ? "" : end.substr(at + 1);
    if (id == "0") return "others";
    const auto found = kinds_.find(end);
    // Requests end and their counts stay: all of them together are of interest.
    if (found == kinds_.end() && !silent_.contains(node)) return "ended actors";
    const std::string kind = found != kinds_.end() ? found->second : "actor";
    std::string name = printable(kind + " " + id);
    if (names_node_) name.append("@").append(short_node(node));
    return name;
  }

private:
  std::map<std::string, std::string> kinds_;
  bool names_node_;
  std::set<std::string> silent_;
};

struct flow {
  uint64_t messages = 0;
  double rate = 0;
  bool is_known = false;  ///< the rate
};

/// By the names of both ends.
std::map<std::pair<std::string, std::string>, flow> flows_of(const reading& what) {
  const end_names name{what.now};
  std::map<std::pair<std::string, std::string>, flow> flows;
  for (const edge_entry& edge : what.now.edges) {
    flow& f = flows[{name(edge.from), name(edge.to)}];
    f.messages += edge.messages;
    const auto found = what.speed.edges.find({edge.from, edge.to});
    if (found == what.speed.edges.end()) continue;
    f.rate += found->second;
    f.is_known = true;
  }
  return flows;
}

std::string bar(double share) {
  constexpr size_t longest = 10;
  const auto full = static_cast<size_t>(share * longest + 0.5);
  std::string out;
  for (size_t i = 0; i < std::min(full, longest); ++i) out += "█";
  return out;
}

}  // namespace

std::string short_node(const std::string& id) {
  return printable(id.substr(0, 8));
}

std::string counters_text(const actor_entry& actor, const rates& speed) {
  std::string out;
  for (const auto& [name, value] : actor.counters) {
    if (value == 0) continue;
    if (!out.empty()) out += "  ";
    out += printable(name) + " " + short_count(static_cast<double>(value));
    const auto rate = speed.counters.find({end_point(actor), name});
    if (rate != speed.counters.end() && rate->second > 0)
      out += " +" + short_count(rate->second) + "/s";
  }
  return out;
}

std::string summary_line(const reading& what, const look& how) {
  const totals sums = totals_of(what.now, what.speed);
  const palette& colours = how.colours;
  std::string line = colours.paint(tone::good, std::to_string(sums.nodes_alive)) + " nodes alive";
  if (sums.nodes_gone > 0)
    line += ", " + colours.paint(tone::bad, std::to_string(sums.nodes_gone)) + " gone";
  if (sums.fetch_processes > 0) line += " + " + std::to_string(sums.fetch_processes) + " fetching";
  if (!what.now.unreachable.empty())
    line +=
        ", " + colours.paint(tone::bad, std::to_string(what.now.unreachable.size())) + " silent";
  line +=
      "   " + std::to_string(what.now.actors.size()) + " actors   " +
      std::to_string(sums.requests) + " requests   " +
      colours.paint(mailbox_tone(sums.waiting_messages), std::to_string(sums.waiting_messages)) +
      " waiting";
  if (!what.speed.edges.empty())
    line += "   " + short_count(sums.messages_per_s) + " messages/s   " +
            short_count(sums.tokens_per_s) + " tokens/s";
  return clip(line, how.width);
}

std::vector<std::string> draw_nodes(const reading& what, const look& how) {
  std::map<std::string, size_t> actors;
  for (const actor_entry& actor : what.now.actors) ++actors[actor.node];
  std::vector<std::vector<cell>> rows;
  for (const node_entry& node : what.now.nodes) {
    std::string roles;
    for (const std::string& role : node.roles) roles += (roles.empty() ? "" : ",") + role;
    if (node.only_fetches) roles = "(fetch process)";
    const bool is_quiet = is_silent(what.now, node.id);
    rows.push_back({{printable(node.id), node.id == what.now.self ? tone::bold : tone::plain},
                    {printable(node.address)},
                    {printable(node.state) + (is_quiet ? ", no answer" : ""),
                     is_quiet ? tone::bad : node_tone(node.state)},
                    {short_duration(node.uptime_s)},
                    {printable(roles)},
                    {std::to_string(actors[node.id])}});
  }
  return draw_table({{"NODE", align::left, 8},
                     {"ADDRESS", align::left, 12, 3},
                     {"STATE"},
                     {"UPTIME", align::right, 0, 2},
                     {"ROLES", align::left, 8, 1},
                     {"ACTORS", align::right, 0, 4}},
                    std::move(rows), how.width, how.colours);
}

std::vector<std::string> draw_actors(const reading& what, const look& how) {
  return actor_table(sorted(what.now), what, how);
}

std::vector<std::string> draw_requests(const reading& what, const look& how) {
  std::vector<const actor_entry*> requests = sorted(what.now);
  std::erase_if(requests, [](const actor_entry* actor) { return actor->kind != "request"; });
  if (requests.empty()) return {"no open requests"};
  return actor_table(requests, what, how);
}

std::vector<std::string> draw_edges(const reading& what, const look& how) {
  const auto by_name = flows_of(what);
  std::vector<std::pair<std::pair<std::string, std::string>, flow>> flows{by_name.begin(),
                                                                          by_name.end()};
  std::stable_sort(flows.begin(), flows.end(), [](const auto& a, const auto& b) {
    return std::pair{a.second.rate, a.second.messages} >
           std::pair{b.second.rate, b.second.messages};
  });
  const double most = flows.empty() ? 0 : flows.front().second.rate;
  std::vector<std::vector<cell>> rows;
  for (const auto& [ends, f] : flows) {
    const tone how_busy = f.rate > 0 ? tone::plain : tone::dim;
    rows.push_back({{ends.first, how_busy},
                    {"→ " + ends.second, how_busy},
                    {f.is_known ? short_count(f.rate) : "-", how_busy},
                    {short_count(static_cast<double>(f.messages)), how_busy},
                    {most > 0 ? bar(f.rate / most) : "", tone::accent}});
  }
  if (rows.empty()) return {"no messages yet"};
  std::vector<column> columns{{"FROM", align::left, 12},
                              {"TO", align::left, 12},
                              {"PER SECOND", align::right},
                              {"MESSAGES", align::right, 0, 1},
                              {"", align::left, 0, 2}};
  if (what.speed.edges.empty()) {
    columns.erase(columns.begin() + 2);
    for (auto& row : rows) row.erase(row.begin() + 2);
  }
  return draw_table(std::move(columns), std::move(rows), how.width, how.colours);
}

std::vector<std::string> draw_events(const std::vector<event_lines>& events, const look& how) {
  std::vector<std::string> lines;
  for (const event_lines& node : events) {
    for (const std::string& line : node.lines) {
      const std::string who = events.size() > 1 ? short_node(node.node) + "  " : "";
      lines.push_back(clip(how.colours.paint(tone::dim, who) + printable(line), how.width));
    }
  }
  if (lines.empty()) lines.emplace_back("no events yet");
  return lines;
}

}  // namespace deepinfer::view
