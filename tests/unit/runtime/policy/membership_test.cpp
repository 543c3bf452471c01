#include "runtime/policy/membership_table.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::policy;
using namespace std::chrono_literals;

namespace {

member_record record(uint64_t n, uint64_t epoch) {
  member_record r;
  r.id = {0, n};
  r.address = "10.0.0." + std::to_string(n) + ":7400";
  r.name = r.address;
  r.epoch = epoch;
  r.version = 1;
  return r;
}

membership_table table_of(uint64_t n, uint64_t epoch) {
  return membership_table{record(n, epoch), {}};
}

void link(membership_table& table, uint64_t n, uint64_t epoch) {
  const auto r = record(n, epoch);
  table.link_up(r.id, epoch, r.address, 0ms);
}

}  // namespace

TEST_SUITE("runtime/policy") {
  TEST_CASE("one living address is enough to meet the whole cluster") {
    auto a = table_of(1, 10);
    a.learn_address("10.0.0.2:7400", 0ms);
    CHECK(a.due_dials(0ms) == std::vector<std::string>{"10.0.0.2:7400"});
    CHECK(a.due_dials(1ms).empty());
    link(a, 2, 5);
    a.apply({0, 2}, {record(2, 5), record(3, 7), record(1, 10)}, 1ms);
    CHECK(a.due_dials(2ms) == std::vector<std::string>{"10.0.0.3:7400"});
    CHECK(a.coordinator() == node_id{0, 2});
  }

  TEST_CASE("a failed dial is repeated, a linked or own address is not dialled") {
    auto a = table_of(1, 10);
    a.learn_address("10.0.0.1:7400", 0ms);
    a.learn_address("10.0.0.2:7400", 0ms);
    REQUIRE(a.due_dials(0ms).size() == 1);
    a.dial_failed("10.0.0.2:7400", 10ms);
    CHECK(a.due_dials(509ms).empty());
    CHECK(a.due_dials(510ms).size() == 1);
    link(a, 2, 5);
    CHECK(a.due_dials(1h).empty());
  }

  TEST_CASE("hearing again that a node has left is no change, so that gossip about it ends") {
    auto a = table_of(1, 10);
    link(a, 2, 5);
    link(a, 3, 6);
    a.link_down({0, 3}, 1ms);
    auto gone = record(3, 6);
    gone.state = member_state::left;
    const uint64_t before = a.changes();
    a.apply({0, 2}, {record(2, 5), gone}, 2ms);
    CHECK(a.members()[2].state == member_state::left);
    const uint64_t told = a.changes();
    CHECK(told > before);
    a.apply({0, 2}, {record(2, 5), gone}, 3ms);
    CHECK(a.changes() == told);
  }

  TEST_CASE("a dead node is dialled again and comes back; one that left is not") {
    auto a = table_of(1, 10);
    link(a, 2, 5);
    a.link_down({0, 2}, 100ms);
    CHECK(a.members()[1].state == member_state::dead);
    CHECK(a.due_dials(100ms).size() == 1);
    link(a, 2, 5);
    CHECK(a.members()[1].state == member_state::alive);
    auto leaving = record(2, 5);
    leaving.state = member_state::left;
    leaving.version = 9;
    a.apply({0, 2}, {leaving}, 200ms);
    a.link_down({0, 2}, 300ms);
    CHECK(a.members()[1].state == member_state::left);
    CHECK(a.due_dials(301ms).empty());  // not at once, as after a cut
    CHECK(a.majority());
  }

  TEST_CASE("telling twice what is known changes nothing, so gossip comes to rest") {
    auto a = table_of(1, 10);
    link(a, 2, 5);
    link(a, 3, 6);
    auto leaving = record(2, 5);
    leaving.state = member_state::left;
    leaving.version = 9;
    a.apply({0, 2}, {leaving}, 1ms);
    a.link_down({0, 2}, 2ms);
    const uint64_t before = a.changes();
    for (int round = 0; round < 3; ++round) a.apply({0, 3}, {record(3, 6), leaving}, 3ms);
    CHECK(a.changes() <= before + 1);
    const uint64_t rest = a.changes();
    a.apply({0, 3}, {record(3, 6), leaving}, 4ms);
    CHECK(a.changes() == rest);
  }

  TEST_CASE(
      "a seed is dialled again for ever: after a goodbye, after a crash, after it is forgotten") {
    auto a = table_of(1, 10);
    a.add_seed("10.0.0.2:7400", 0ms);
    link(a, 2, 5);
    auto leaving = record(2, 5);
    leaving.state = member_state::left;
    leaving.version = 9;
    a.apply({0, 2}, {leaving}, 1ms);
    a.link_down({0, 2}, 1s);
    CHECK(a.due_dials(1min) == std::vector<std::string>{"10.0.0.2:7400"});
    a.sweep(1h);
    CHECK(a.members().size() == 1);
    CHECK(a.due_dials(2h) == std::vector<std::string>{"10.0.0.2:7400"});
  }

  TEST_CASE("a proof of death that comes while the link counts as up is asked for again") {
    auto a = table_of(1, 30);
    link(a, 2, 10);
    CHECK_FALSE(a.confirm_dead("10.0.0.2:7400"));
    a.link_down({0, 2}, 1s);
    CHECK_FALSE(a.majority());
    CHECK(a.confirm_dead("10.0.0.2:7400"));
    CHECK(a.majority());
  }

  TEST_CASE("a minority forgets nobody, however long it waits") {
    auto a = table_of(1, 30);
    link(a, 2, 10);
    link(a, 3, 11);
    a.link_down({0, 2}, 1s);
    a.link_down({0, 3}, 1s);
    a.sweep(24h);
    CHECK(a.members().size() == 3);
    CHECK_FALSE(a.majority());
  }

  TEST_CASE("a node that comes back after a cut brings its services again") {
    auto a = table_of(1, 10);
    link(a, 2, 5);
    auto offering = record(2, 5);
    offering.version = 7;
    offering.services = {{"decode", {0, 2}, 1030, 1, "m"}, {"kvstore", {0, 2}, 1031, 1}};
    a.apply({0, 2}, {offering}, 1ms);
    CHECK(a.members()[1].services.size() == 2);
    a.link_down({0, 2}, 2ms);
    REQUIRE(a.members()[1].services.size() == 1);  // the store can still be named
    CHECK(a.members()[1].services[0].kind == "kvstore");
    link(a, 2, 5);
    a.apply({0, 2}, {offering}, 3ms);
    CHECK(a.members()[1].services.size() == 2);
  }

  TEST_CASE("a restart on the same address replaces the older life") {
    auto a = table_of(1, 10);
    link(a, 2, 5);
    a.link_down({0, 2}, 100ms);
    a.link_up({0, 99}, 6, "10.0.0.2:7400", 200ms);
    REQUIRE(a.members().size() == 2);
    CHECK(a.members()[1].id == node_id{0, 99});
    CHECK(a.majority());
  }

  TEST_CASE("only the owner's newest word about itself counts") {
    auto a = table_of(1, 10);
    link(a, 2, 5);
    auto newer = record(2, 5);
    newer.version = 3;
    newer.roles = {"decode"};
    a.apply({0, 2}, {newer}, 1ms);
    auto older = record(2, 5);
    older.version = 2;
    a.apply({0, 2}, {older}, 2ms);
    CHECK(a.members()[1].roles == std::vector<std::string>{"decode"});
    link(a, 3, 6);
    auto rumour = record(2, 5);
    rumour.version = 50;
    rumour.roles = {"gateway"};
    a.apply({0, 3}, {rumour}, 3ms);
    CHECK(a.members()[1].roles == std::vector<std::string>{"decode"});
  }

  TEST_CASE("processes that only serve their machine have no vote and coordinate nothing") {
    auto a = table_of(1, 30);
    link(a, 2, 10);
    for (uint64_t id : {5, 6, 7}) {
      link(a, id, id);  // older than all others
      auto fetching = record(id, id);
      fetching.version = 2;
      fetching.roles = {"fetch"};
      a.apply({0, id}, {fetching}, 1ms);
    }
    CHECK(a.coordinator() == node_id{0, 2});
    for (uint64_t id : {5, 6, 7}) a.link_down({0, id}, 1s);
    CHECK(a.majority());
    a.link_down({0, 2}, 2s);
    CHECK_FALSE(a.majority());  // and they do not outvote the node that is missing
  }

  TEST_CASE("one without a vote is soon forgotten, also by a minority") {
    auto a = table_of(1, 30);
    link(a, 2, 10);
    link(a, 5, 40);
    auto fetching = record(5, 40);
    fetching.version = 2;
    fetching.roles = {"fetch"};
    a.apply({0, 5}, {fetching}, 1ms);
    a.link_down({0, 5}, 1s);
    a.link_down({0, 2}, 1s);
    REQUIRE_FALSE(a.majority());
    a.sweep(1s + 9999ms);
    CHECK(a.members().size() == 3);
    a.sweep(11s);
    CHECK(a.members().size() == 2);  // the node is missed on
    for (const auto& address : a.due_dials(2h)) CHECK(address == record(2, 10).address);
  }

  TEST_CASE("in any split at most one side has the majority, and healing restores it on all") {
    for (uint64_t seed = 0; seed < 300; ++seed) {
      CAPTURE(seed);
      test::rng random{seed};
      const uint64_t count = 2 + random.below(6);
      std::vector<membership_table> nodes;
      for (uint64_t n = 0; n < count; ++n) nodes.push_back(table_of(n, 100 + random.below(50)));
      const auto epoch = [&](uint64_t n) { return nodes[n].self().epoch; };
      for (uint64_t n = 0; n < count; ++n)
        for (uint64_t m = 0; m < count; ++m)
          if (n != m) link(nodes[n], m, epoch(m));
      std::vector<int> side(count);
      for (auto& s : side) s = static_cast<int>(random.below(2));
      for (uint64_t n = 0; n < count; ++n)
        for (uint64_t m = 0; m < count; ++m)
          if (side[n] != side[m]) nodes[n].link_down({0, m}, 1s);
      bool with[2] = {false, false};
      for (uint64_t n = 0; n < count; ++n) with[side[n]] = with[side[n]] || nodes[n].majority();
      CHECK_FALSE((with[0] && with[1]));
      CHECK((with[0] || with[1]));
      for (uint64_t n = 0; n < count; ++n)
        for (uint64_t m = 0; m < count; ++m)
          if (side[n] != side[m]) link(nodes[n], m, epoch(m));
      for (auto& node : nodes) CHECK(node.majority());
    }
  }

  TEST_CASE("a minority stays one until the missing are back, replaced or proven dead") {
    auto a = table_of(1, 30);
    link(a, 2, 10);
    a.link_down({0, 2}, 1s);
    CHECK_FALSE(a.majority());  // the other side may hold the older node
    a.confirm_dead("10.0.0.2:7400");
    CHECK(a.majority());
  }

  TEST_CASE("the dead are forgotten after the configured time") {
    auto a = table_of(1, 2);
    link(a, 2, 5);
    a.link_down({0, 2}, 1s);
    a.sweep(1s + 9min);
    CHECK(a.members().size() == 2);
    a.sweep(1s + 10min);
    CHECK(a.members().size() == 1);
    CHECK(a.due_dials(2h).empty());
  }
}
