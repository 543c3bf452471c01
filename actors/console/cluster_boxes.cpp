#include "actors/console/console_view.hpp"

#include <algorithm>
#include <map>

namespace deepinfer::view {
namespace {

constexpr size_t narrowest_pair = 150;   // from here on two boxes stand side by side
constexpr size_t requests_in_a_box = 6;  // the rest is counted; the requests page has them all
constexpr size_t widest_box = 120;       // also where the terminal, or a file, has no end

using lines = std::vector<std::string>;

std::string repeat(std::string_view piece, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += piece;
  return out;
}

tone state_tone(const node_entry& node, bool is_silent) {
  if (is_silent) return tone::bad;
  if (node.state == "alive") return tone::good;
  return node.state == "suspect" ? tone::warn : tone::dim;
}

/// `╭ title ────── state ╮`
std::string top(const node_entry& node, const reading& what, const look& how) {
  const auto& silent = what.now.unreachable;
  const bool is_silent = std::find(silent.begin(), silent.end(), node.id) != silent.end();
  const bool is_gone = node.state == "dead" || node.state == "left";
  std::string roles;
  for (const std::string& role : node.roles) roles.append(" ").append(role);
  if (node.only_fetches) roles = " (fetch process)";
  std::string state = printable(node.state);
  if (is_silent) state += ", no answer";
  if (!is_gone) state.append(" ").append(short_duration(node.uptime_s));
  // "╭ " + title + " ─" + dashes + " " + state + " ╮"
  const size_t room = how.width - std::min(how.width, display_width(state) + 7);
  const std::string title = clip(short_node(node.id) + "  " + printable(node.address), room);
  const std::string more = clip(printable(roles), room - display_width(title));
  const size_t dashes = room - display_width(title) - display_width(more);
  const palette& colours = how.colours;
  return colours.paint(tone::dim, "╭ ") + colours.paint(is_gone ? tone::dim : tone::bold, title) +
         colours.paint(tone::dim, more + " ─" + repeat("─", dashes) + " ") +
         colours.paint(state_tone(node, is_silent), state) + colours.paint(tone::dim, " ╮");
}

std::string framed(const std::string& painted, const look& how) {
  const size_t inside = how.width - 4;
  const std::string text = clip(painted, inside);
  const std::string bar = how.colours.paint(tone::dim, "│");
  return bar + " " + text + std::string(inside - display_width(text), ' ') + " " + bar;
}

lines box(const node_entry& node, const reading& what, const look& how) {
  // a cluster of this node alone: its actor table does not repeat the node
  reading inside{{what.now.cluster, what.now.self, {node}, {}, what.now.edges, {}}, what.speed};
  size_t requests = 0;
  for (const actor_entry& actor : what.now.actors) {
    if (actor.node != node.id) continue;
    if (actor.kind == "request" && ++requests > requests_in_a_box) continue;
    inside.now.actors.push_back(actor);
  }
  lines out{top(node, what, how)};
  if (inside.now.actors.empty()) {
    out.push_back(framed(how.colours.paint(tone::dim, "no actor answers"), how));
  } else {
    for (const std::string& line : draw_actors(inside, {how.width - 4, how.colours}))
      out.push_back(framed(line, how));
  }
  if (requests > requests_in_a_box)
    out.push_back(framed(
        how.colours.paint(tone::dim,
                          "and " + std::to_string(requests - requests_in_a_box) + " more requests"),
        how));
  out.push_back(how.colours.paint(tone::dim, "╰" + repeat("─", how.width - 2) + "╯"));
  return out;
}

void append_pair(lines& out, lines left, lines right, const look& how) {
  const std::string bar = how.colours.paint(tone::dim, "│");
  const std::string empty = bar + std::string(how.width - 2, ' ') + bar;
  while (left.size() < right.size()) left.insert(left.end() - 1, empty);
  while (right.size() < left.size()) right.insert(right.end() - 1, empty);
  for (size_t i = 0; i < left.size(); ++i) out.push_back(left[i] + " " + right[i]);
}

/// Living nodes first, then by id, so that boxes keep their places.
std::vector<const node_entry*> ordered(const topology& now) {
  std::vector<const node_entry*> nodes;
  for (const node_entry& node : now.nodes) nodes.push_back(&node);
  std::sort(nodes.begin(), nodes.end(), [](const node_entry* a, const node_entry* b) {
    const auto is_gone = [](const node_entry* n) {
      return n->state == "dead" || n->state == "left";
    };
    return std::pair{is_gone(a), a->id} < std::pair{is_gone(b), b->id};
  });
  return nodes;
}

}  // namespace

std::vector<std::string> draw_cluster(const reading& what, const look& how) {
  const size_t width = std::max<size_t>(how.width == any_width ? widest_box : how.width, 20);
  const bool in_pairs = width >= narrowest_pair && what.now.nodes.size() > 1;
  const look one{in_pairs ? (width - 1) / 2 : width, how.colours};
  const auto nodes = ordered(what.now);
  lines out;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (in_pairs && i + 1 < nodes.size()) {
      append_pair(out, box(*nodes[i], what, one), box(*nodes[i + 1], what, one), one);
      ++i;
    } else {
      for (std::string& line : box(*nodes[i], what, one)) out.push_back(std::move(line));
    }
  }
  out.emplace_back();
  for (std::string& line : draw_edges(what, {width, how.colours})) out.push_back(std::move(line));
  for (std::string& line : out) line = clip(line, how.width);
  return out;
}

}  // namespace deepinfer::view
