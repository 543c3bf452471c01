#include "runtime/policy/engine_table.hpp"

#include <algorithm>

namespace deepinfer::policy {

void engine_table::add(const engine_key& engine) {
  engines_.try_emplace(engine);
}

void engine_table::remove(const engine_key& engine) {
  engines_.erase(engine);
}

void engine_table::apply(const engine_key& engine, const load_report& report, time_point now) {
  const auto found = engines_.find(engine);
  if (found == engines_.end()) return;
  entry& e = found->second;
  if (e.heard_once && report.number <= e.report.number) return;
  e.report = report;
  e.heard = now;
  e.heard_once = true;
}

void engine_table::placed(const engine_key& engine, const route_request& what, time_point now) {
  const auto found = engines_.find(engine);
  if (found != engines_.end()) found->second.placements.push_back({what, now});
}

engine_view engine_table::view(const entry& e, time_point now) const {
  engine_view v{e.report.queued_tokens,
                e.report.running_sequences,
                e.report.max_sequences,
                e.report.context_tokens,
                e.report.free_tokens,
                e.heard_once && e.report.accepting && now - e.heard < config_.silent_after};
  for (const placement& p : e.placements) {
    if (now - p.at >= config_.placement_counts_for) continue;
    const uint64_t space = uint64_t{p.what.prompt_tokens} + p.what.max_tokens;
    v.queued_tokens += p.what.prompt_tokens;
    v.running_sequences += 1;
    v.context_tokens += p.what.prompt_tokens;
    v.free_tokens -= std::min(v.free_tokens, space);
  }
  return v;
}

result<engine_key> engine_table::choose(const route_policy& policy,
                                        const route_request& what,
                                        std::span<const engine_key> exclude,
                                        time_point now) {
  std::vector<engine_view> views;
  std::vector<engine_key> keys;
  for (auto& [key, e] : engines_) {
    std::erase_if(e.placements,
                  [&](const placement& p) { return now - p.at >= config_.placement_counts_for; });
    if (std::find(exclude.begin(), exclude.end(), key) != exclude.end()) continue;
    views.push_back(view(e, now));
    keys.push_back(key);
  }
  if (views.empty())
    return failure{error_code::no_capacity, "no engine of this role is in the cluster"};
  const auto index = policy.choose(views, what);
  if (!index) return index.error();
  return keys[*index];
}

size_t engine_table::accepting(time_point now) const {
  size_t count = 0;
  for (const auto& [key, e] : engines_) count += view(e, now).accepting ? 1 : 0;
  return count;
}

std::vector<engine_key> engine_table::keys() const {
  std::vector<engine_key> all;
  for (const auto& [key, e] : engines_) all.push_back(key);
  return all;
}

}  // namespace deepinfer::policy
