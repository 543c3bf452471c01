#include "tests/support/cache_site.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

namespace {

constexpr uint32_t group_blocks = 2;

sim_options quick_moves(uint32_t replicas) {
  sim_options options;
  options.settings.kvstore.store.group_blocks = group_blocks;
  options.settings.kvstore.replicas = replicas;
  kv_mover_config& moves = options.settings.kvmove;
  moves.settle = 2s;
  moves.gone_after = 20s;
  moves.strays_every = 5s;
  moves.copies_every = 20s;
  moves.linger = 2s;
  moves.left_out = 1s;
  moves.put_deadline = 2s;
  return options;
}

/// Engines that stay, and stores that come and go under some talks.
class moving_site : public cache_site {
public:
  moving_site(uint64_t seed, uint32_t replicas)
      : cache_site(seed, quick_moves(replicas)), random_(seed), replicas_(replicas) {
    for (auto& talk : talks_) {
      talk = draw_tokens(random_, 900 + random_.below(300));
      go_on(talk, [] {});
    }
  }

  /// A turn of some talk; in its middle a store dies, leaves or comes.
  void any_turn() {
    go_on(talks_[random_.below(3)], [this] { change_stores(); });
    cluster.advance(std::chrono::milliseconds{random_.below(20'000)});
  }

  void all_stores() {
    for (const std::string& address : addresses_)
      if (cluster.find(address) == nullptr) cluster.start(address, {node_role::kvstore});
  }

  std::vector<sim_node*> stores() {
    std::vector<sim_node*> alive;
    for (const std::string& address : addresses_)
      if (sim_node* node = cluster.find(address)) alive.push_back(node);
    return alive;
  }

  /// Every block of every store lies on its owners and nowhere else. How many there are.
  size_t check_placed() {
    const auto nodes = stores();
    std::vector<policy::store_site> sites;
    for (const sim_node* node : nodes)
      sites.push_back({node->store.id.hi, node->store.id.lo, node->store.capacity_bytes});
    std::map<storage::block_key, std::pair<storage::block_key, std::set<size_t>>> blocks;
    for (size_t i = 0; i < nodes.size(); ++i)
      for (const auto& head : nodes[i]->store.store->heads(0, 1'000'000).heads) {
        const auto group = nodes[i]->store.store->group({.head = head, .limit = 4096});
        REQUIRE(group);
        for (const auto& block : *group) {
          auto& entry = blocks[block.record.key];
          entry.first = head;
          entry.second.insert(i);
        }
      }
    for (const auto& [key, where] : blocks) {
      const auto owners = policy::owners(where.first, sites, replicas_);
      CHECK(where.second == std::set<size_t>(owners.begin(), owners.end()));
    }
    return blocks.size();
  }

  /// Every talk goes on behind what is stored of it.
  void check_hits() {
    for (const auto& talk : talks_) {
      const auto used = engine("hits_used");
      turn(talk, 5);
      CHECK(engine("hits_used") == used + 1);
    }
  }

  int64_t sum(const std::string& name) {
    int64_t all = 0;
    for (sim_node* node : stores())
      for (const auto& actor : cluster.figures(*node)) {
        const auto found = actor.counters.find(name);
        if (actor.kind == "kv_mover" && found != actor.counters.end()) all += found->second;
      }
    return all;
  }

private:
  template <class Meanwhile>
  void go_on(std::vector<int32_t>& talk, const Meanwhile& meanwhile) {
    talk = turn(talk, 20 + random_.below(150), [&] {
      cluster.advance(std::chrono::microseconds{random_.below(40'000)});
      meanwhile();
    });
    say_more(talk, draw_tokens(random_, 20 + random_.below(60)));
  }

  void change_stores() {
    const std::string& address = addresses_[random_.below(3)];
    const bool there = cluster.find(address) != nullptr;
    if (!there)
      cluster.start(address, {node_role::kvstore});
    else if (stores().size() > 1 && random_.below(2) == 0)
      random_.below(2) == 0 ? cluster.kill(address) : cluster.leave(address);
  }

  test::rng random_;
  uint32_t replicas_;
  std::vector<std::string> addresses_{"s:1", "s:2", "s:3"};
  std::array<std::vector<int32_t>, 3> talks_;
};

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("stores come and go under talks; afterwards every block lies where it belongs") {
    int64_t moved = 0, copied = 0;
    for (const uint64_t seed : {21, 22, 23, 24, 25, 26}) {
      CAPTURE(seed);
      moving_site site{seed, seed % 2 == 0 ? 2u : 1u};
      for (int turn = 0; turn < 10; ++turn) site.any_turn();
      site.all_stores();
      site.cluster.advance(120s);
      CHECK(site.check_placed() > 20);
      site.check_hits();
      moved += site.sum("groups_moved");
      copied += site.sum("groups_copied");
      site.cluster.advance(60s);
      site.check_placed();
      for (sim_node* node : site.stores()) site.cluster.check_cache_idle(*node);
      CHECK(site.sum("staged_bytes") == 0);
      CHECK(site.sum("groups_waiting") == 0);
    }
    CHECK(moved > 0);
    CHECK(copied > 0);
  }

  TEST_CASE("a store that joins a running cluster is read from, and the first may then go") {
    moving_site site{31, 2};
    for (int turn = 0; turn < 3; ++turn) site.any_turn();
    site.all_stores();
    site.cluster.advance(120s);
    CHECK(site.sum("groups_copied") > 0);
    site.cluster.kill("s:1");
    site.cluster.advance(5s);
    site.check_hits();
    // and what it had is made again
    site.cluster.advance(60s);
    site.check_placed();
    site.check_hits();
  }
}
