#pragma once

#include "proto/types/ids.hpp"
#include "runtime/policy/route_policy.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace deepinfer::policy {

/// Names an engine actor anywhere in the cluster.
struct engine_key {
  node_id node;
  uint64_t actor = 0;
  friend auto operator<=>(const engine_key&, const engine_key&) = default;
};

/// One load report, as plain values.
struct load_report {
  uint64_t number = 0;
  bool accepting = false;
  uint64_t queued_tokens = 0;
  uint32_t running_sequences = 0;
  uint32_t max_sequences = 0;
  uint64_t context_tokens = 0;
  uint64_t free_tokens = 0;
};

struct engine_table_config {
  /// Three report intervals without a word: the engine counts as full (LB-0 d).
  std::chrono::milliseconds silent_after{3000};
  /// How long a placement of our own counts on top of the reports. Longer than one report
  /// interval plus the way there, so that no placement is forgotten before the engine reports it.
  std::chrono::milliseconds placement_counts_for{300};
};

/// A balancer's view of its engines (LB-0): reports, plus its own placements until the reports
/// contain them. Without the second part several requests inside one report interval all go to the
/// same engine. Pure: time comes in.
class engine_table {
public:
  using time_point = std::chrono::nanoseconds;

  explicit engine_table(const engine_table_config& config) : config_(config) {}

  /// A new engine, full until its first report.
  void add(const engine_key& engine);
  void remove(const engine_key& engine);
  /// Old numbers are ignored. Unknown engines too: membership comes first.
  void apply(const engine_key& engine, const load_report& report, time_point now);
  void placed(const engine_key& engine, const route_request& what, time_point now);

  /// Asks `policy` over all engines but `exclude`. `no_capacity` if none can take it, or there is
  /// none.
  [[nodiscard]] result<engine_key> choose(const route_policy& policy,
                                          const route_request& what,
                                          std::span<const engine_key> exclude,
                                          time_point now);

  [[nodiscard]] size_t size() const { return engines_.size(); }
  /// Engines that take work now.
  [[nodiscard]] size_t accepting(time_point now) const;
  [[nodiscard]] std::vector<engine_key> keys() const;

private:
  struct placement {
    route_request what;
    time_point at;
  };
  struct entry {
    load_report report;
    time_point heard{};
    bool heard_once = false;
    std::vector<placement> placements;
  };

  [[nodiscard]] engine_view view(const entry& e, time_point now) const;

  engine_table_config config_;
  std::map<engine_key, entry> engines_;
};

}  // namespace deepinfer::policy
