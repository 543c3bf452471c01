#include "actors/console/order_text.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace deepinfer;
using namespace deepinfer::view;

namespace {

order_view done() {
  order_view out{true, 2, {}};
  out.report.outcomes = {{"kv_writer", "w:1", "", 4},
                         {"kvstore", "a:1", "id1", 1200, 2'000'000},
                         {"kvstore", "b:1", "id2", 1, 500},
                         {"ring_host", "w:1", "", 0, 0, 1}};
  return out;
}

bool says(const std::vector<std::string>& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

}  // namespace

TEST_SUITE("actors/console/order_text") {
  TEST_CASE("a purge says what is gone, in all and at each store") {
    const auto lines = draw_purge(done(), "tenant bob");
    REQUIRE(lines.size() == 3);
    CHECK(lines[0] == "tenant bob: 1201 blocks (2.0MB) and 1 ring removed, 4 blocks not written");
    CHECK(lines[1] == "  kvstore a:1 (id1): 1200 blocks, 2.0MB");
    CHECK(lines[2] == "  kvstore b:1 (id2): 1 block, 500B");
  }

  TEST_CASE("a tenant of whom nothing is stored is no mistake, and said to be so") {
    order_view nothing = done();
    for (order_outcome& o : nothing.report.outcomes) o.blocks = o.bytes = o.rings = 0;
    CHECK(draw_purge(nothing, "tenant anonymous")[0] ==
          "tenant anonymous: nothing of it was stored");
  }

  TEST_CASE("who could not be asked is named, with the reason and what to do") {
    order_view part = done();
    part.complete = false;
    part.report.outcomes[1].problem = "its node is down";
    const auto lines = draw_purge(part, "tenant bob");
    CHECK(says(lines, "NOT DONE: kvstore a:1 (id1): its node is down"));
    CHECK(says(lines, "again"));
    CHECK_FALSE(says(lines, "1200 blocks, 2.0MB"));
    CHECK(says(draw_purge({}, "tenant bob"), "NOT DONE: no node of the cluster"));
  }

  TEST_CASE("clocks: who was acknowledged, or that none waited") {
    order_view clocks = done();
    CHECK(says(draw_acknowledge(clocks), "none of 2 stores"));
    clocks.report.outcomes[2].was_frozen = true;
    const auto lines = draw_acknowledge(clocks);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].starts_with("kvstore b:1 (id2)"));
  }

  TEST_CASE("an answer is read as it was written, and never reaches the terminal raw") {
    const auto got = parse_order(
        R"({"complete": false, "stores": 1, "outcomes": [{"kind": "kvstore", "node": "x\u001b[2J",)"
        R"( "blocks": 7, "was_frozen": true, "problem": "off", "new": []}]})");
    REQUIRE(got);
    CHECK_FALSE(got->complete);
    REQUIRE(got->report.outcomes.size() == 1);
    CHECK(got->report.outcomes[0].blocks == 7);
    CHECK(got->report.outcomes[0].was_frozen);
    for (const std::string& line : draw_purge(*got, "tenant bob"))
      CHECK(line.find('\x1b') == std::string::npos);
    for (const char* wrong : {"", "[]", "{}", "{\"complete\": true}"})
      CHECK_FALSE(parse_order(wrong));
  }
}
