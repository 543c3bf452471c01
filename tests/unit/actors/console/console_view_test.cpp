#include "actors/console/console_view.hpp"

#include "tests/support/source_tree.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

using namespace deepinfer;
using namespace deepinfer::view;

namespace {

using lines = std::vector<std::string>;

reading golden() {
  auto parsed = parse_topology(test::read_source("tests/golden/console/topology.json"));
  REQUIRE(parsed);
  return {*std::move(parsed), {}};
}

/// The golden reading one second after itself, with some work done.
reading at_work() {
  const topology before = golden().now;
  topology now = before;
  now.edges[1].messages += 30;
  now.edges[2].messages += 3;
  now.actors[4].counters["tokens"] += 118;
  return {now, rates_between(before, now, std::chrono::seconds(1))};
}

/// Compares with a file of tests/golden; UPDATE_GOLDEN=1 rewrites it.
void check_golden(const std::string& name, const lines& drawn) {
  const std::string path = "tests/golden/console/" + name;
  if (const char* update = std::getenv("UPDATE_GOLDEN"); update != nullptr && *update == '1') {
    std::ofstream out{test::source_path(path), std::ios::binary};
    for (const std::string& line : drawn) out << line << '\n';
  }
  CHECK(drawn == test::read_source_lines(path));
}

bool contains(const lines& all, std::string_view text) {
  for (const std::string& line : all)
    if (line.find(text) != std::string::npos) return true;
  return false;
}

using draw_function = lines (*)(const reading&, const look&);
constexpr draw_function pages[] = {draw_cluster, draw_nodes, draw_actors, draw_requests,
                                   draw_edges};

}  // namespace

TEST_SUITE("actors/console/console_view") {
  TEST_CASE("the cluster is drawn as boxes and flows") {
    check_golden("cluster_100.txt", draw_cluster(at_work(), {100, {}}));
    check_golden("cluster_170.txt", draw_cluster(at_work(), {170, {}}));
  }

  TEST_CASE("tables show what the topology says") {
    lines all;
    for (const draw_function draw : {draw_nodes, draw_actors, draw_requests, draw_edges}) {
      for (const std::string& line : draw(at_work(), {})) all.push_back(line);
      all.emplace_back();
    }
    check_golden("tables.txt", all);
  }

  TEST_CASE("no line is wider than the terminal") {
    for (size_t width = 1; width < 200; ++width) {
      CAPTURE(width);
      for (const draw_function draw : pages)
        for (const bool is_on : {false, true})
          for (const std::string& line : draw(at_work(), {width, {is_on}}))
            CHECK(display_width(line) <= width);
      CHECK(display_width(summary_line(at_work(), {width, {true}})) <= width);
    }
  }

  TEST_CASE("without rates the totals are shown instead") {
    CHECK(draw_actors(golden(), {})[0].find("SENT/S") == std::string::npos);
    CHECK(draw_edges(golden(), {})[0].find("PER SECOND") == std::string::npos);
    CHECK(draw_actors(at_work(), {})[0].find("SENT/S") != std::string::npos);
    CHECK(summary_line(golden(), {}).find("messages/s") == std::string::npos);
    CHECK(summary_line(at_work(), {}).find("33 messages/s   118 tokens/s") != std::string::npos);
  }

  TEST_CASE("a node that does not answer is told from one that is dead") {
    reading what = golden();
    what.now.unreachable = {what.now.nodes[2].id};
    CHECK(contains(draw_cluster(what, {100, {}}), "alive, no answer 3m12s"));
    CHECK(contains(draw_nodes(what, {}), "alive, no answer"));
    CHECK(summary_line(what, {}).find("1 gone, 1 silent") != std::string::npos);
  }

  TEST_CASE("a box counts the requests that it does not show") {
    reading what = golden();
    for (uint64_t id = 100; id < 300; ++id)
      what.now.actors.push_back({"request", id, what.now.nodes[1].id, "queued", 0, {}});
    CHECK(contains(draw_cluster(what, {100, {}}), "and 195 more requests"));
    CHECK(draw_requests(what, {}).size() == 202);
  }

  TEST_CASE("messages to actors that have ended are counted together") {
    reading what = golden();
    const std::string engine = what.now.edges[1].from, node = what.now.nodes[1].id;
    for (int id = 900; id < 950; ++id)
      what.now.edges.push_back({engine, std::to_string(id) + "@" + node, 100});
    const lines table = draw_edges(what, {});
    CHECK(table.size() == 6);
    CHECK(table[1] == "decode 6@77aa0192    → ended actors             5.0k");
    what.now.unreachable = {node};  // then nobody knows whether they have
    CHECK(contains(draw_edges(what, {}), "→ actor 900@0c1d2e3f"));
  }

  TEST_CASE("remote text cannot leave its place") {
    const std::string evil =
        "x\x1b[2J\ny\xC2\x9B"
        "1m\xFF";
    reading what = golden();
    what.now.cluster = what.now.nodes[0].address = what.now.nodes[0].state = what.now.nodes[0].id =
        evil;
    what.now.nodes[0].roles = {evil};
    what.now.actors[0] = {evil, 1, evil, evil, 1, {{evil, 5}}};
    what.now.edges[0] = {evil, evil + "@" + evil, 3};
    for (const draw_function draw : pages)
      for (const std::string& line : draw(what, {120, {}})) {
        CHECK(line.find('\x1b') == std::string::npos);
        CHECK(line.find('\n') == std::string::npos);
        CHECK(line.find("\xC2\x9B") == std::string::npos);
      }
    const lines events = draw_events({{"n", {evil}}}, {});
    CHECK(events == lines{"x\\x1b[2J\\x0ay\\x9b1m\xEF\xBF\xBD"});
  }

  TEST_CASE("events of several nodes name their node") {
    CHECK(draw_events({{"0c1d2e3f4a", {"a"}}, {"77aa019233", {"b"}}}, {}) ==
          lines{"0c1d2e3f  a", "77aa0192  b"});
    CHECK(draw_events({{"0c1d2e3f4a", {"a"}}}, {}) == lines{"a"});
    CHECK(draw_events({}, {}) == lines{"no events yet"});
  }

  TEST_CASE("an empty cluster is drawn as one") {
    const reading nothing;
    CHECK(draw_requests(nothing, {}) == lines{"no open requests"});
    CHECK(draw_edges(nothing, {}) == lines{"no messages yet"});
    CHECK(draw_cluster(nothing, {80, {}}) == lines{"", "no messages yet"});
  }
}
