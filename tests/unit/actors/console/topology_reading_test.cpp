#include "actors/console/topology_reading.hpp"

#include "tests/support/rng.hpp"
#include "tests/support/source_tree.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace deepinfer::view;

namespace {

const std::string engine = "6@77aa01923bd4e5f6a7b8c9d0e1f20314";
const std::string open_request = "41@0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f";

topology golden() {
  auto parsed = parse_topology(test::read_source("tests/golden/console/topology.json"));
  REQUIRE(parsed);
  return *std::move(parsed);
}

}  // namespace

TEST_SUITE("actors/console/topology_reading") {
  TEST_CASE("all that the contract names is read") {
    const topology t = golden();
    CHECK(t.cluster == "local");
    CHECK(t.self == "0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f");
    REQUIRE(t.nodes.size() == 3);
    CHECK(t.nodes[1].address == "127.0.0.1:7400");
    CHECK(t.nodes[1].roles == std::vector<std::string>{"gateway", "controller"});
    CHECK(t.nodes[1].epoch == 1764445432000001);
    CHECK(t.nodes[1].uptime_s == 3723.5);
    REQUIRE(t.actors.size() == 5);
    CHECK(t.actors[4].kind == "decode");
    CHECK(t.actors[4].mailbox == 12);
    CHECK(t.actors[4].counters.at("tokens") == 118000);
    CHECK(end_point(t.actors[4]) == engine);
    REQUIRE(t.edges.size() == 4);
    CHECK(t.edges[1].messages == 121);
  }

  TEST_CASE("fields of other releases are left alone, missing ones have defaults") {
    const auto t = parse_topology(R"({"nodes":[{"id":"a","new":[1]}],"actors":[{}],"later":{}})");
    REQUIRE(t);
    CHECK(t->nodes[0].id == "a");
    CHECK(t->nodes[0].state.empty());
    CHECK(t->actors.size() == 1);
    CHECK(t->edges.empty());
  }

  TEST_CASE("what is no topology is refused with advice") {
    for (const char* text : {"", "[]", "{}", "{\"nodes\":[]", "<html>", "{\"nodes\":[]}", "null"}) {
      CAPTURE(text);
      const auto t = parse_topology(text);
      REQUIRE_FALSE(t);
      CHECK(t.error().code == error_code::corrupt);
      CHECK(t.error().detail.find("console address") != std::string::npos);
    }
  }

  TEST_CASE("wrong types inside do no harm") {
    const auto t = parse_topology(
        R"({"cluster":7,"nodes":[1,"x",{"id":3,"roles":"r","epoch":-4,"uptime_s":"y"}],
            "actors":[null,{"id":-1,"mailbox":1e99,"counters":[2],"kind":null},{"counters":{"a":"b","c":1.5,"d":-3}}],
            "edges":{"from":1},"unreachable":[4,"n"]})");
    REQUIRE(t);
    CHECK(t->cluster.empty());
    CHECK(t->nodes.size() == 1);
    REQUIRE(t->actors.size() == 2);
    CHECK(t->actors[0].id == 0);
    CHECK(t->actors[1].counters.size() == 1);
    CHECK(t->unreachable == std::vector<std::string>{"n"});
  }

  TEST_CASE("a process that only fetches is seen, and is no node") {
    const auto t = parse_topology(
        R"({"nodes":[{"id":"a","state":"alive","roles":["all"]}],"actors":[],
            "fetch_processes":[{"id":"b","state":"alive"},{"id":"c","state":"left"}]})");
    REQUIRE(t);
    REQUIRE(t->nodes.size() == 3);
    CHECK_FALSE(t->nodes[0].only_fetches);
    CHECK(t->nodes[1].only_fetches);
    const totals sums = totals_of(*t, {});
    CHECK(sums.nodes_alive == 1);
    CHECK(sums.nodes_gone == 0);
    CHECK(sums.fetch_processes == 1);
  }

  TEST_CASE("rates are differences per second") {
    const topology before = golden();
    topology now = before;
    now.edges[1].messages += 60;
    now.actors[4].counters["tokens"] += 40;
    const rates speed = rates_between(before, now, std::chrono::seconds(2));
    CHECK(speed.edges.at({engine, open_request}) == 30);
    CHECK(speed.edges.at({open_request, engine}) == 0);
    CHECK(speed.counters.at({engine, "tokens"}) == 20);
    const totals sums = totals_of(now, speed);
    CHECK(sums.messages_per_s == 30);
    CHECK(sums.tokens_per_s == 20);
    CHECK(sums.nodes_alive == 2);
    CHECK(sums.nodes_gone == 1);
    CHECK(sums.requests == 1);
    CHECK(sums.waiting_messages == 146);
  }

  TEST_CASE("a new edge, a new life and no time have no rate") {
    const topology before = golden();
    topology now = before;
    now.edges[1].messages = 3;  // fewer than before
    now.edges.push_back({"1@a", "2@a", 5});
    now.actors[4].counters["tokens"] = 1;
    now.actors[4].counters["new"] = 1;
    const rates speed = rates_between(before, now, std::chrono::seconds(1));
    CHECK_FALSE(speed.edges.contains({engine, open_request}));
    CHECK_FALSE(speed.edges.contains({"1@a", "2@a"}));
    CHECK_FALSE(speed.counters.contains({engine, "tokens"}));
    CHECK_FALSE(speed.counters.contains({engine, "new"}));
    CHECK(rates_between(before, before, std::chrono::seconds(0)).edges.empty());
  }

  TEST_CASE("damaged answers are refused or read, never worse") {
    const std::string good = test::read_source("tests/golden/console/topology.json");
    for (uint64_t seed = 0; seed < 300; ++seed) {
      CAPTURE(seed);
      test::rng random{seed};
      std::string text = good;
      for (int i = 0; i < 3; ++i)
        text[random.below(static_cast<uint32_t>(text.size()))] =
            static_cast<char>(random.below(256));
      if (const auto t = parse_topology(text)) CHECK(t->actors.size() <= 5);
    }
  }

  TEST_CASE("events are the lines of a node") {
    const auto events = parse_events(R"({"node":"0c1d","lines":["a","b",3]})");
    REQUIRE(events);
    CHECK(events->node == "0c1d");
    CHECK(events->lines == std::vector<std::string>{"a", "b"});
    CHECK_FALSE(parse_events("[1]"));
  }
}
