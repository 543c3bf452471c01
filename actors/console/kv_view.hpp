#pragma once

#include "actors/console/console_view.hpp"

#include <string>
#include <vector>

/// What `console kv` shows: the KV cache of a cluster, from what its actors say of themselves.
/// Pure.
namespace deepinfer::view {

/// Two lines of totals, then a table for each duty that somebody has; says so when nobody has any.
[[nodiscard]] std::vector<std::string> draw_kv(const reading& what, const look& how);

/// {"cluster", "totals": {..}, "stores": [..], "sweeps", "checks", "fetchers", "engines",
/// "writers", "ring_hosts"}; an entry is {"node", "id", "state", and its counters by name}.
[[nodiscard]] std::string kv_json(const topology& now);

}  // namespace deepinfer::view
