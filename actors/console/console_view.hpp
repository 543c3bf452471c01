#pragma once

#include "actors/console/text_table.hpp"
#include "actors/console/topology_reading.hpp"

#include <string>
#include <vector>

/// What the console shows at a terminal: readings in, lines out. Pure; no line is wider than it may
/// be, and nothing in it but our colours moves the terminal.
namespace deepinfer::view {

struct reading {
  topology now;
  rates speed;  ///< empty on the first reading
};

struct look {
  size_t width = any_width;
  palette colours;
};

/// A box per node with its actors, then who sends to whom.
[[nodiscard]] std::vector<std::string> draw_cluster(const reading& what, const look& how);

// Tables.
[[nodiscard]] std::vector<std::string> draw_nodes(const reading& what, const look& how);
[[nodiscard]] std::vector<std::string> draw_actors(const reading& what, const look& how);
[[nodiscard]] std::vector<std::string> draw_requests(const reading& what, const look& how);
[[nodiscard]] std::vector<std::string> draw_edges(const reading& what, const look& how);
[[nodiscard]] std::vector<std::string> draw_events(const std::vector<event_lines>& events,
                                                   const look& how);

/// One line: nodes, actors, requests, messages and tokens per second.
[[nodiscard]] std::string summary_line(const reading& what, const look& how);

// Words that several of these use; `printable` already.
[[nodiscard]] std::string short_node(const std::string& id);  ///< the first eight digits
/// Those that are not 0.
[[nodiscard]] std::string counters_text(const actor_entry& actor, const rates& speed);

}  // namespace deepinfer::view
