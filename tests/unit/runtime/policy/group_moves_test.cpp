#include "runtime/policy/group_moves.hpp"

#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace deepinfer::policy {
namespace {

using namespace std::chrono_literals;
using storage::block_key;

move_store store(uint64_t number, uint32_t replicas = 1) {
  return {{number, number * 7, 100}, 64, replicas};
}

/// A store that has been there long, and its friends.
struct settled {
  explicit settled(std::vector<uint64_t> others, uint32_t replicas = 1)
      : moves(store(1, replicas), move_limits{}, 0s) {
    for (const uint64_t other : others) moves.set_store(store(other, replicas), 0s);
    now = 10min;
    while (const auto kind = moves.due(now)) moves.walked(*kind, 0, now);
  }
  group_moves moves;
  std::chrono::nanoseconds now{};
};

std::vector<block_key> some_heads() {
  test::rng random{3};
  std::vector<block_key> heads(300);
  for (block_key& head : heads) head = {random.next(), random.next()};
  return heads;
}

TEST_SUITE_BEGIN("runtime/policy");

TEST_CASE("a store that joins is walked for when the stores have been the same for a while") {
  settled site{{2}};
  site.moves.set_store(store(3), site.now);
  CHECK_FALSE(site.moves.due(site.now + 29s));
  site.moves.set_store(store(4), site.now + 29s);  // a second one: it begins anew
  CHECK_FALSE(site.moves.due(site.now + 58s));
  CHECK(site.moves.due(site.now + 59s) == walk_kind::all);
  site.moves.walked(walk_kind::all, 0, site.now + 70s);
  CHECK_FALSE(site.moves.due(site.now + 71s));
}

TEST_CASE("a store that restarts changes no owner, and one that stays away loses its place") {
  settled site{{2, 3}};
  const auto heads = some_heads();
  std::vector<std::vector<block_key>> before;
  for (const block_key& head : heads) before.push_back(site.moves.owners(head).others);
  const uint64_t placement = site.moves.placement();
  site.moves.lose_store(store(3).id(), site.now);
  CHECK_FALSE(site.moves.answers(store(3).id(), site.now));
  CHECK_FALSE(site.moves.due(site.now + 9min));
  CHECK(site.moves.placement() == placement);
  for (size_t i = 0; i < heads.size(); ++i) CHECK(site.moves.owners(heads[i]).others == before[i]);
  // back in time: what was written meanwhile is looked for, nothing else moves
  site.moves.set_store(store(3), site.now + 9min);
  CHECK(site.moves.placement() == placement);
  CHECK(site.moves.answers(store(3).id(), site.now + 9min));
  CHECK(site.moves.due(site.now + 9min + 30s) == walk_kind::all);
  site.moves.walked(walk_kind::all, 0, site.now + 10min);
  // away for good
  site.moves.lose_store(store(3).id(), site.now + 10min);
  CHECK(site.moves.stores() == 3);
  CHECK_FALSE(site.moves.due(site.now + 19min + 59s));
  CHECK_FALSE(site.moves.due(site.now + 20min));  // and then settles
  CHECK(site.moves.stores() == 2);
  CHECK(site.moves.placement() != placement);
  CHECK(site.moves.due(site.now + 20min + 30s) == walk_kind::all);
  for (const block_key& head : heads)
    for (const block_key& owner : site.moves.owners(head).others) CHECK(owner != store(3).id());
}

TEST_CASE("owners are those that writers choose") {
  const settled site{{2, 3, 4}, 2};
  const std::vector<store_site> sites{store(4).site, store(1).site, store(3).site, store(2).site};
  size_t mine = 0;
  for (const block_key& head : some_heads()) {
    std::vector<block_key> expected;
    for (const uint32_t i : owners(head, sites, 2))
      expected.push_back({sites[i].id_hi, sites[i].id_lo});
    const auto found = site.moves.owners(head);
    CHECK(found.mine == (std::erase(expected, store(1).id()) == 1));
    CHECK(found.others == expected);
    if (found.mine) ++mine;
  }
  CHECK(mine > 100);
  CHECK(mine < 200);
}

TEST_CASE("after its own start a store waits for others that only restart") {
  group_moves moves{store(1), {}, 5s};
  moves.set_store(store(2), 6s);
  CHECK_FALSE(moves.due(10min + 4s));
  CHECK(moves.due(10min + 5s) == walk_kind::all);
}

TEST_CASE("alone there is nobody to move to") {
  group_moves moves{store(1), {}, 0s};
  CHECK_FALSE(moves.due(100h));
}

TEST_CASE("stores that disagree move nothing until they are equal") {
  settled site{{2}};
  site.moves.set_store(store(2, 2), site.now);
  CHECK_FALSE(site.moves.agree());
  CHECK_FALSE(site.moves.due(site.now + 1h));
  auto wide = store(2);
  wide.group_blocks = 32;
  site.moves.set_store(wide, site.now + 1h);
  CHECK_FALSE(site.moves.agree());
  site.moves.set_store(store(2), site.now + 2h);
  CHECK(site.moves.agree());
  CHECK(site.moves.due(site.now + 2h + 30s) == walk_kind::all);
}

TEST_CASE("strays are looked for often, lost copies seldom, and what waited again soon") {
  settled site{{2}};
  CHECK_FALSE(site.moves.due(site.now + 9min));
  CHECK(site.moves.due(site.now + 10min) == walk_kind::strays);
  site.moves.walked(walk_kind::strays, 5, site.now + 10min);
  CHECK_FALSE(site.moves.due(site.now + 19min));
  CHECK(site.moves.due(site.now + 20min) == walk_kind::strays);
  CHECK(site.moves.due(site.now + 1h) == walk_kind::all);
  site.moves.walked(walk_kind::all, 5, site.now + 1h);
  CHECK(site.moves.due(site.now + 1h + 10min) == walk_kind::all);
  site.moves.walked(walk_kind::all, 0, site.now + 1h + 10min);
  CHECK(site.moves.due(site.now + 1h + 20min) == walk_kind::strays);
}

TEST_CASE("a store that fails is left out, longer each time, until it works") {
  settled site{{2}};
  const auto two = store(2).id();
  site.moves.failed(two, 0s);
  CHECK_FALSE(site.moves.answers(two, 9s));
  CHECK(site.moves.answers(two, 10s));
  site.moves.failed(two, 10s);
  CHECK_FALSE(site.moves.answers(two, 29s));
  CHECK(site.moves.answers(two, 30s));
  for (int i = 0; i < 20; ++i) site.moves.failed(two, 30s);
  CHECK_FALSE(site.moves.answers(two, 30s + 9min));
  CHECK(site.moves.answers(two, 30s + 10min));
  site.moves.worked(two);
  site.moves.failed(two, 20min);
  CHECK(site.moves.answers(two, 20min + 10s));
  site.moves.failed(block_key{9, 9}, 0s);  // nobody
  CHECK_FALSE(site.moves.answers(block_key{9, 9}, 1h));
}

TEST_CASE("when a store leaves, only copies of its groups are made anew") {
  settled site{{2, 3, 4}, 2};
  const auto heads = some_heads();
  std::vector<group_owners> before;
  for (const block_key& head : heads) before.push_back(site.moves.owners(head));
  site.moves.lose_store(store(4).id(), site.now);
  static_cast<void>(site.moves.due(site.now + 1h));
  size_t remade = 0;
  for (size_t i = 0; i < heads.size(); ++i) {
    const auto after = site.moves.owners(heads[i]);
    const auto& others = before[i].others;
    if (std::find(others.begin(), others.end(), store(4).id()) == others.end()) {
      CHECK(after.others == others);
      CHECK(after.mine == before[i].mine);
    } else {
      ++remade;
      if (before[i].mine) CHECK(after.mine);
    }
  }
  CHECK(remade > 50);
}

TEST_SUITE_END();

}  // namespace
}  // namespace deepinfer::policy
