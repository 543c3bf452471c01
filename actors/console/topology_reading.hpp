#pragma once

#include "proto/types/result.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What `/api/topology` says, as plain values. Pure.
namespace deepinfer::view {

struct actor_entry {
  std::string kind;
  uint64_t id = 0;
  std::string node;
  std::string state;
  uint64_t mailbox = 0;
  std::map<std::string, int64_t> counters;
};

struct node_entry {
  std::string id;
  std::string address;
  std::vector<std::string> roles;
  uint64_t epoch = 0;
  std::string state;  ///< "alive", "suspect", "left", "dead"
  double uptime_s = 0;
  bool only_fetches = false;  ///< a process beside the nodes of its machine
};

/// Ends are named "<actor number>@<node id>"; actor 0 stands for all others together.
struct edge_entry {
  std::string from, to;
  uint64_t messages = 0;
};

struct topology {
  std::string cluster;
  std::string self;
  std::vector<node_entry> nodes;
  std::vector<actor_entry> actors;
  std::vector<edge_entry> edges;
  std::vector<std::string> unreachable;  ///< nodes that did not answer in time
};

/// Unknown fields are left alone, missing ones have their defaults: releases may differ. `corrupt`
/// when it is not such an object at all.
[[nodiscard]] result<topology> parse_topology(std::string_view json);

/// The `lines` of `/api/events`.
struct event_lines {
  std::string node;
  std::vector<std::string> lines;
};
[[nodiscard]] result<event_lines> parse_events(std::string_view json);

[[nodiscard]] std::string end_point(const actor_entry& actor);

/// Changes per second; what was not there before has no rate.
struct rates {
  std::map<std::pair<std::string, std::string>, double> edges;     ///< (from, to)
  std::map<std::pair<std::string, std::string>, double> counters;  ///< (end point, counter)
};
/// A count that went down belongs to a new life of the actor, and has no rate.
[[nodiscard]] rates rates_between(const topology& before,
                                  const topology& now,
                                  std::chrono::duration<double> between);

/// Totals over the cluster.
struct totals {
  size_t nodes_alive = 0;
  size_t nodes_gone = 0;
  size_t fetch_processes = 0;  ///< that live; they are no nodes
  size_t requests = 0;
  uint64_t waiting_messages = 0;  ///< in mailboxes
  double messages_per_s = 0;
  double tokens_per_s = 0;  ///< that engines made
};
[[nodiscard]] totals totals_of(const topology& now, const rates& speed);

}  // namespace deepinfer::view
