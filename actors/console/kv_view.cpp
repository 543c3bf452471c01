#include "actors/console/kv_view.hpp"

#include "runtime/recipe/json_value.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <string_view>

namespace deepinfer::view {
namespace {

using lines = std::vector<std::string>;
using std::string_view;

/// How a counter is shown.
enum class unit : uint8_t {
  count,
  bytes,
  seconds_old,  ///< 0 or absent: never
  alarm,        ///< a count that should be 0
  switched_on,  ///< 0 or 1; 1 is bad news
};

struct figure {
  string_view counter;
  string_view title;
  unit in = unit::count;
  size_t rank = 0;  ///< as `column::rank`
};

struct duty {
  string_view kind, title, list;  ///< of its actors, of its table, in JSON
  std::vector<figure> figures;
};

std::vector<duty> store_duties() {
  return {{"kv_store",
           "STORES",
           "stores",
           {{"blocks", "BLOCKS"},
            {"live_bytes", "LIVE", unit::bytes},
            {"file_bytes", "ON DISK", unit::bytes, 6},
            {"capacity_bytes", "OF", unit::bytes},
            {"leases", "LEASES", unit::count, 4},
            {"read_bytes", "READ", unit::bytes, 2},
            {"written_bytes", "WRITTEN", unit::bytes, 2},
            {"over_quota", "OVER QUOTA", unit::count, 5},
            {"quarantined", "BAD", unit::alarm, 1},
            {"diverged", "DIVERGED", unit::alarm, 1},
            {"write_failures", "NOT WRITTEN", unit::alarm, 1},
            {"read_failures", "NOT READ", unit::alarm, 1},
            {"broken", "WRITES", unit::switched_on, 1},
            {"clock_frozen", "CLOCK", unit::switched_on, 5}}},
          {"kv_sweep",
           "SWEEPS",
           "sweeps",
           {{"rounds", "ROUNDS"},
            {"expired", "EXPIRED"},
            {"evicted", "EVICTED"},
            {"last_eviction_s", "LAST UNUSED FOR", unit::seconds_old, 2},
            {"youngest_eviction_s", "SHORTEST", unit::seconds_old},
            {"evicted_below_floor", "BELOW FLOOR", unit::alarm, 1},
            {"bytes_given_back", "REWRITTEN", unit::bytes, 2},
            {"bytes_scrubbed", "SCRUBBED", unit::bytes, 2},
            {"failures", "FAILED", unit::alarm}}},
          {"kv_mover",
           "MOVING",
           "movers",
           {{"groups_seen", "GROUPS"},
            {"groups_moved", "MOVED"},
            {"groups_copied", "COPIED"},
            {"groups_waiting", "WAITING", unit::count, 2},
            {"groups_leaving", "LEAVING", unit::count, 3},
            {"bytes_copied", "SENT", unit::bytes},
            {"blocks_given_away", "GIVEN AWAY", unit::count, 3},
            {"owners_full", "FULL", unit::count, 2},
            {"failures", "FAILED", unit::count, 2},
            {"disagree", "STORES", unit::switched_on, 1}}},
          {"kv_check",
           "MATCHING",
           "checks",
           {{"stores", "STORES"},
            {"blocks", "BLOCKS"},
            {"index_bytes", "MEMORY", unit::bytes, 3},
            {"rings", "RINGS"},
            {"matches_agent", "AGENT", unit::count, 2},
            {"matches_chat", "CHAT", unit::count, 2},
            {"gaps", "GAPS", unit::count, 4},
            {"snapshots", "SNAPSHOTS", unit::count, 4}}},
          {"kv_fetch",
           "FETCHING",
           "fetchers",
           {{"fetches", "FETCHES"},
            {"blocks_read", "BLOCKS"},
            {"bytes_read", "READ", unit::bytes},
            {"blocks_found_in_memory", "IN MEMORY", unit::count, 3},
            {"arena_used_bytes", "HELD", unit::bytes, 2},
            {"blocks_missing", "MISSING", unit::count, 2},
            {"answers_late", "LATE", unit::count, 2},
            {"blocks_bad", "BAD", unit::alarm, 1}}}};
}

std::vector<duty> engine_duties() {
  return {{"prefill",
           "RESTORING",
           "engines",
           {{"hits_fetched", "FETCHED"},
            {"hits_used", "USED"},
            {"restore_none_stored", "NONE STORED", unit::count, 3},
            {"restore_too_short", "TOO SHORT", unit::count, 3},
            {"restore_computing_is_faster", "TOO SLOW", unit::count, 3},
            {"tokens_cached", "CACHED"},
            {"tokens_replayed", "REPLAYED"},
            {"rings_pulled", "RINGS"},
            {"rings_missed", "NO RINGS", unit::count, 2},
            {"hits_shortened", "SHORTENED", unit::count, 2},
            {"holds_ran_out", "TOO LATE", unit::count, 3},
            {"blocks_bad", "BAD", unit::alarm, 1}}},
          {"kv_writer",
           "WRITING",
           "writers",
           {{"queue_bytes", "QUEUED", unit::bytes},
            {"in_flight", "PUTS"},
            {"stored_bytes", "STORED", unit::bytes},
            {"stored", "BLOCKS"},
            {"refreshed", "THERE"},
            {"dropped_busy", "BUSY", unit::count, 2},
            {"dropped_full", "FULL", unit::count, 2},
            {"dropped_no_store", "NO STORE", unit::count, 3},
            {"dropped_unreachable", "SILENT", unit::alarm, 2},
            {"dropped_failed", "FAILED", unit::alarm, 1},
            {"diverged", "DIVERGED", unit::alarm, 1}}},
          {"ring_host",
           "RINGS",
           "ring_hosts",
           {{"rings", "RINGS"},
            {"bytes", "BYTES", unit::bytes},
            {"capacity_bytes", "OF", unit::bytes},
            {"pulls", "PULLS"},
            {"hits", "HITS"},
            {"evictions", "EVICTED", unit::count, 1},
            {"idled", "IDLE", unit::count, 1}}}};
}

const std::vector<duty>& duties() {
  static const std::vector<duty> all = [] {
    std::vector<duty> out = store_duties();
    for (duty& each : engine_duties()) out.push_back(std::move(each));
    return out;
  }();
  return all;
}

std::optional<int64_t> counter_of(const actor_entry& actor, string_view name) {
  const auto found = actor.counters.find(std::string{name});
  if (found == actor.counters.end()) return std::nullopt;
  return found->second;
}

std::string short_bytes(double bytes) {
  return short_count(bytes) + "B";
}

cell show(const actor_entry& actor, const figure& what, const rates& speed) {
  const auto value = counter_of(actor, what.counter);
  if (!value) return {"-", tone::dim};
  const auto number = static_cast<double>(*value);
  switch (what.in) {
    case unit::bytes: {
      const auto rate = speed.counters.find({end_point(actor), std::string{what.counter}});
      const bool moves = rate != speed.counters.end() && rate->second > 0;
      return {short_bytes(number) + (moves ? " +" + short_bytes(rate->second) + "/s" : "")};
    }
    case unit::seconds_old:
      return *value <= 0 ? cell{"-", tone::dim} : cell{short_duration(number)};
    case unit::alarm:
      return {short_count(number), *value == 0 ? tone::dim : tone::bad};
    case unit::switched_on:
      return *value == 0 ? cell{"ok", tone::dim} : cell{"STOPPED", tone::bad};
    case unit::count:
      break;
  }
  return {short_count(number)};
}

std::vector<const actor_entry*> of_kind(const topology& now, string_view kind) {
  std::vector<const actor_entry*> out;
  for (const actor_entry& actor : now.actors)
    if (actor.kind == kind) out.push_back(&actor);
  std::sort(out.begin(), out.end(), [](const actor_entry* a, const actor_entry* b) {
    return std::pair{a->node, a->id} < std::pair{b->node, b->id};
  });
  return out;
}

int64_t sum(const topology& now, string_view kind, string_view name) {
  int64_t out = 0;
  for (const actor_entry* actor : of_kind(now, kind)) out += counter_of(*actor, name).value_or(0);
  return out;
}

lines table_of(const duty& what, const reading& from, const look& how) {
  std::vector<column> columns{{"NODE"}};
  for (const figure& f : what.figures)
    columns.push_back({std::string{f.title}, align::right, 0, f.rank});
  columns.push_back({"STATE", align::left, 8, 7});
  std::vector<std::vector<cell>> rows;
  for (const actor_entry* actor : of_kind(from.now, what.kind)) {
    std::vector<cell> row{{short_node(actor->node), tone::dim}};
    for (const figure& f : what.figures) row.push_back(show(*actor, f, from.speed));
    row.push_back({printable(actor->state)});
    rows.push_back(std::move(row));
  }
  return draw_table(std::move(columns), std::move(rows), how.width, how.colours);
}

/// A share of the tokens or blocks of prompts.
struct hit_share {
  int64_t hit = 0, all = 0;

  [[nodiscard]] std::string text() const {
    if (all == 0) return "-";
    std::array<char, 16> out{};
    std::snprintf(out.data(), out.size(), "%.1f%%",
                  100 * static_cast<double>(hit) / static_cast<double>(all));
    return out.data();
  }
};

/// What engines took from the cache, as clients were told, and what indexes said was stored, which
/// may be too short to be worth its way, or gone.
enum class hit_kind : uint8_t { used, found };

/// Of "tokens" or "blocks" of a class ("agent", "chat"); an empty one: of both.
hit_share share(const topology& now, hit_kind kind, const std::string& what, string_view use) {
  hit_share out;
  for (const string_view each : {string_view{"agent"}, string_view{"chat"}}) {
    if (!use.empty() && use != each) continue;
    const std::string end = what + "_" + std::string{each};
    if (kind == hit_kind::used) {
      out.hit += sum(now, "gateway", "cached_" + end);
      out.all += sum(now, "gateway", "prompt_" + end);
    } else {
      const int64_t found = sum(now, "kv_check", "found_" + end);
      out.hit += found;
      out.all += found + sum(now, "kv_check", "absent_" + end);
    }
  }
  return out;
}

std::string occupancy_line(const topology& now, const palette& colours) {
  const auto live = static_cast<double>(sum(now, "kv_store", "live_bytes"));
  const auto room = static_cast<double>(sum(now, "kv_store", "capacity_bytes"));
  const double part = room > 0 ? live / room : 0;
  std::array<char, 16> percent{};
  std::snprintf(percent.data(), percent.size(), "%.0f%%", 100 * part);
  constexpr size_t longest = 20;
  const auto full = std::min(longest, static_cast<size_t>(std::ceil(part * longest)));
  std::string bar;
  for (size_t i = 0; i < longest; ++i) bar += i < full ? "█" : "·";
  const tone how = part >= 0.9 ? tone::bad : part >= 0.75 ? tone::warn : tone::good;
  return std::to_string(of_kind(now, "kv_store").size()) + " stores   " +
         short_count(static_cast<double>(sum(now, "kv_store", "blocks"))) + " blocks   " +
         short_bytes(live) + " of " + short_bytes(room) + "  " + colours.paint(how, bar) + " " +
         percent.data() + "   " + std::to_string(sum(now, "kv_store", "leases")) + " leases";
}

std::string hit_line(const topology& now, hit_kind kind) {
  std::string line = kind == hit_kind::used ? "hits    " : "stored  ";
  for (const std::string& what : {std::string{"tokens"}, std::string{"blocks"}})
    line += " " + what + " " + share(now, kind, what, "").text() + " (agent " +
            share(now, kind, what, "agent").text() + ", chat " +
            share(now, kind, what, "chat").text() + ")  ";
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

/// Bytes a second, of all actors of a kind together.
struct bandwidth {
  string_view name, title, kind, counter;
};
constexpr std::array<bandwidth, 4> bandwidths{
    {{"store_read", "read", "kv_store", "read_bytes"},
     {"store_written", "written", "kv_store", "written_bytes"},
     {"fetched", "fetched", "kv_fetch", "bytes_read"},
     {"sent", "sent", "kv_writer", "stored_bytes"}}};

double bytes_per_s(const reading& what, const bandwidth& of) {
  double out = 0;
  for (const actor_entry* actor : of_kind(what.now, of.kind)) {
    const auto rate = what.speed.counters.find({end_point(*actor), std::string{of.counter}});
    if (rate != what.speed.counters.end()) out += rate->second;
  }
  return out;
}

std::string bandwidth_line(const reading& what) {
  std::string line = "bytes/s ";
  for (const bandwidth& each : bandwidths)
    line += " " + std::string{each.title} + " " + short_bytes(bytes_per_s(what, each)) + "  ";
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

recipe::json_object entry(const actor_entry& actor) {
  recipe::json_object out;
  out.push_back({"node", recipe::json_value{actor.node}});
  out.push_back({"id", recipe::json_value{actor.id}});
  out.push_back({"state", recipe::json_value{actor.state}});
  for (const auto& [name, value] : actor.counters) {
    // an actor of another release may call a counter like one of the fields above
    if (name == "node" || name == "id" || name == "state") continue;
    out.push_back({name, recipe::json_value{value}});
  }
  return out;
}

}  // namespace

lines draw_kv(const reading& what, const look& how) {
  lines out{clip(occupancy_line(what.now, how.colours), how.width),
            clip(hit_line(what.now, hit_kind::used), how.width),
            clip(hit_line(what.now, hit_kind::found), how.width),
            clip(bandwidth_line(what), how.width)};
  bool any = false;
  for (const duty& each : duties()) {
    if (of_kind(what.now, each.kind).empty()) continue;
    any = any || each.kind != "prefill";  // there without a cache, too
    out.emplace_back();
    out.push_back(how.colours.paint(tone::bold, each.title));
    for (std::string& line : table_of(each, what, how)) out.push_back(std::move(line));
  }
  if (!any) return {"no actor of the KV cache: start a node with the role kvstore"};
  return out;
}

std::string kv_json(const reading& what_is) {
  const topology& now = what_is.now;
  recipe::json_object out, totals;
  out.push_back({"cluster", recipe::json_value{now.cluster}});
  for (const string_view name : {string_view{"blocks"}, string_view{"live_bytes"},
                                 string_view{"capacity_bytes"}, string_view{"leases"}})
    totals.push_back({std::string{name}, recipe::json_value{sum(now, "kv_store", name)}});
  for (const std::string& what : {std::string{"tokens"}, std::string{"blocks"}}) {
    for (const std::string& use : {std::string{"agent"}, std::string{"chat"}}) {
      const std::string end = what + "_" + use;
      const hit_share used = share(now, hit_kind::used, what, use);
      totals.push_back({"hit_" + end, recipe::json_value{used.hit}});
      totals.push_back({"asked_" + end, recipe::json_value{used.all}});
      const hit_share found = share(now, hit_kind::found, what, use);
      totals.push_back({"found_" + end, recipe::json_value{found.hit}});
      totals.push_back({"matched_" + end, recipe::json_value{found.all}});
    }
  }
  for (const bandwidth& each : bandwidths)
    totals.push_back({std::string{each.name} + "_bytes_per_s",
                      recipe::json_value{std::llround(bytes_per_s(what_is, each))}});
  out.push_back({"totals", recipe::json_value{std::move(totals)}});
  for (const duty& each : duties()) {
    recipe::json_array list;
    for (const actor_entry* actor : of_kind(now, each.kind))
      list.push_back(recipe::json_value{entry(*actor)});
    out.push_back({std::string{each.list}, recipe::json_value{std::move(list)}});
  }
  std::string text;
  recipe::append_spaced_json(text, recipe::json_value{std::move(out)});
  return text;
}

}  // namespace deepinfer::view
