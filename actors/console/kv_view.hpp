#pragma once

#include "actors/console/console_view.hpp"

#include <string>
#include <vector>

/// What `console kv` shows: the KV cache of a cluster, from what its actors say of themselves.
/// Pure.
namespace deepinfer::view {

/// Lines of totals (occupancy; what prompts took from the cache; what indexes knew of them;
/// speeds), then a table for each duty that somebody has; says so when nobody has any.
[[nodiscard]] std::vector<std::string> draw_kv(const reading& what, const look& how);

/// {"cluster", "totals": {..}, "stores": [..], "sweeps", "movers", "checks", "fetchers", "engines",
/// "writers", "ring_hosts"}; an entry is {"node", "id", "state", and its counters by name}. Totals
/// are "blocks", "live_bytes", "capacity_bytes", "leases"; for each of "tokens", "blocks" and each
/// class "hit_" (used) of "asked_", and "found_" (stored, as the indexes said) of "matched_"; and
/// "store_read_", "store_written_", "fetched_" and "sent_bytes_per_s".
[[nodiscard]] std::string kv_json(const reading& what);

}  // namespace deepinfer::view
