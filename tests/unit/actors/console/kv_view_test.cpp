#include "actors/console/kv_view.hpp"

#include "runtime/recipe/json_value.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace deepinfer;
using namespace deepinfer::view;

namespace {

actor_entry actor(std::string kind, uint64_t id, std::map<std::string, int64_t> counters) {
  return {std::move(kind), id, "00aabbccddeeff00112233445566778" + std::to_string(id % 10),
          "idle",          0,  std::move(counters)};
}

reading site() {
  reading out;
  out.now.cluster = "c";
  out.now.actors = {
      actor("kv_store", 2,
            {{"blocks", 1200},
             {"live_bytes", 950},
             {"capacity_bytes", 1000},
             {"broken", 1},
             {"quarantined", 3}}),
      actor("kv_store", 1, {{"blocks", 34}, {"live_bytes", 0}, {"capacity_bytes", 1000}}),
      actor("kv_check", 3,
            {{"found_tokens_agent", 768},
             {"absent_tokens_agent", 256},
             {"found_tokens_chat", 128},
             {"absent_tokens_chat", 0},
             {"found_blocks_agent", 6},
             {"absent_blocks_agent", 2},
             {"found_blocks_chat", 1}}),
      actor("gateway", 6,
            {{"prompt_tokens_agent", 1024},
             {"cached_tokens_agent", 512},
             {"prompt_blocks_agent", 8},
             {"cached_blocks_agent", 4},
             {"prompt_tokens_chat", 256},
             {"cached_tokens_chat", 0},
             {"prompt_blocks_chat", 2},
             {"cached_blocks_chat", 0}}),
      actor("prefill", 4, {{"hits_used", 1}}),
      actor("decode", 5, {{"sequences", 1}})};
  return out;
}

bool shows(const std::vector<std::string>& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

const recipe::json_value* member(const recipe::json_value& object, const std::string& key) {
  for (const auto& [name, value] : *object.as<recipe::json_object>())
    if (name == key) return &value;
  return nullptr;
}

}  // namespace

TEST_SUITE("actors/console/kv_view") {
  TEST_CASE("occupancy and hit shares are of all stores and gateways together") {
    // Hits are what engines used: of what is stored some is not worth its way.
    const auto lines = draw_kv(site(), {});
    CHECK(lines[0].starts_with("2 stores   1.2k blocks   950B of 2.0kB"));
    CHECK(lines[0].find("48%") != std::string::npos);
    CHECK(lines[1] ==
          "hits     tokens 40.0% (agent 50.0%, chat 0.0%)   blocks 40.0% (agent 50.0%, chat 0.0%)");
    CHECK(lines[2] ==
          "stored   tokens 77.8% (agent 75.0%, chat 100.0%)   blocks 77.8% (agent 75.0%, "
          "chat 100.0%)");
  }

  TEST_CASE("speeds are those between two looks, of all actors of a duty together") {
    reading what = site();
    const auto rate = [&what](size_t actor, const char* counter, double bytes) {
      what.speed.counters[{end_point(what.now.actors[actor]), counter}] = bytes;
    };
    rate(0, "read_bytes", 1'500'000);
    rate(1, "read_bytes", 500'000);
    rate(1, "written_bytes", 7000);
    CHECK(draw_kv(what, {})[3] == "bytes/s  read 2.0MB   written 7.0kB   fetched 0B   sent 0B");
    const auto parsed = recipe::parse_json(kv_json(what));
    REQUIRE(parsed);
    const auto& totals = *member(*parsed, "totals");
    CHECK(*member(totals, "store_read_bytes_per_s")->as<int64_t>() == 2'000'000);
    CHECK(*member(totals, "fetched_bytes_per_s")->as<int64_t>() == 0);
  }

  TEST_CASE("a table stands for each duty that somebody has, by node") {
    const auto lines = draw_kv(site(), {});
    CHECK(shows(lines, "STORES"));
    CHECK(shows(lines, "MATCHING"));
    CHECK_FALSE(shows(lines, "FETCHING"));
    CHECK(shows(lines, "RESTORING"));
    CHECK_FALSE(shows(lines, "decode"));
    const auto first = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
      return line.find(" 34 ") != std::string::npos;
    });
    const auto second = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
      return line.find(" 1.2k ") != std::string::npos && line.find("NODE") == std::string::npos &&
             line.find("stores") == std::string::npos;
    });
    CHECK(first < second);
    CHECK(second->find("STOPPED") != std::string::npos);
  }

  TEST_CASE("a store that may not move blocks, and what it could not move, are seen") {
    reading what = site();
    what.now.actors.push_back(
        actor("kv_mover", 6, {{"groups_moved", 17}, {"failures", 4}, {"disagree", 1}}));
    const auto lines = draw_kv(what, {});
    const auto table = std::find(lines.begin(), lines.end(), "MOVING");
    REQUIRE(table != lines.end());
    CHECK(table[2].find(" 17 ") != std::string::npos);
    CHECK(table[2].find("STOPPED") != std::string::npos);
    CHECK(kv_json(what).find("\"movers\"") != std::string::npos);
  }

  TEST_CASE("no line is wider than the terminal and a counter that is missing is a dash") {
    for (const size_t width : {20u, 40u, 80u, 120u})
      for (const std::string& line : draw_kv(site(), {width, {}}))
        CHECK(display_width(line) <= width);
    const auto lines = draw_kv(site(), {});
    CHECK(shows(lines, " - "));
  }

  TEST_CASE("a hostile name stays text") {
    reading what = site();
    what.now.actors[0].state = "\x1b[2Jgone";
    what.now.actors[0].counters["no\x1bname"] = 1;
    for (const std::string& line : draw_kv(what, {})) CHECK(line.find('\x1b') == std::string::npos);
  }

  TEST_CASE("without any duty it says what to start") {
    reading nothing;
    CHECK(draw_kv(nothing, {}) ==
          std::vector<std::string>{"no actor of the KV cache: start a node with the role kvstore"});
  }

  TEST_CASE("JSON has totals, and every counter of every actor of the cache") {
    const auto parsed = recipe::parse_json(kv_json(site()));
    REQUIRE(parsed);
    CHECK(*member(*parsed, "cluster")->as<std::string>() == "c");
    const auto& stores = *member(*parsed, "stores")->as<recipe::json_array>();
    REQUIRE(stores.size() == 2);
    CHECK(*member(stores[0], "blocks")->as<int64_t>() == 34);
    CHECK(*member(stores[1], "quarantined")->as<int64_t>() == 3);
    const auto& totals = *member(*parsed, "totals");
    CHECK(*member(totals, "blocks")->as<int64_t>() == 1234);
    CHECK(*member(totals, "hit_tokens_agent")->as<int64_t>() == 512);
    CHECK(*member(totals, "found_tokens_agent")->as<int64_t>() == 768);
    CHECK(*member(totals, "matched_tokens_agent")->as<int64_t>() == 1024);
    CHECK(*member(totals, "asked_tokens_agent")->as<int64_t>() == 1024);
    CHECK(member(*parsed, "fetchers")->as<recipe::json_array>()->empty());
  }
}
