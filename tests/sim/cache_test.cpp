#include "actors/edge/client_party.hpp"
#include "tests/support/cache_site.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

namespace {

/// Several tenants, and orders that purge what is theirs.
struct tenants_site : cache_site {
  using cache_site::cache_site;

  /// How many tokens of a tenant's prompt came from the cache.
  int64_t cached(const std::string& tenant, const std::vector<int32_t>& prompt) {
    const int64_t before = engine("tokens_cached");
    sim_request request{.prompt = prompt, .max_tokens = 8, .ignore_eos = true, .tenant = tenant};
    const auto client = cluster.send(*gateway, request);
    cluster.advance(8s);
    CHECK(client->state() == sim_client::outcome::complete);
    cluster.check_answer(request, *client);
    return engine("tokens_cached") - before;
  }

  uint64_t purge(const storage::cache_scope& scope) {
    uint64_t blocks = 0;
    for (const order_outcome& one : cluster.purge(*gateway, scope).outcomes) {
      CHECK(one.problem.empty());
      if (one.kind == "kvstore") blocks += one.blocks;
    }
    return blocks;
  }
  uint64_t purge_tenant(const std::string& credentials) {
    http_request request;
    request.headers.push_back({"authorization", credentials});
    return purge(party_of(request, {})->scope);
  }
  uint64_t stored() {
    sim_node& store = *cluster.find("s:1");
    return static_cast<uint64_t>(
        cluster.counters(store, inspectable_actor{store.actors.kv_store})["blocks"]);
  }
};

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("a talk starts behind what is stored of it, and says what it would say without") {
    for (const uint64_t seed : {1, 2, 3, 4}) {
      CAPTURE(seed);
      tenants_site site{seed};
      test::rng random{seed};
      auto talk = draw_tokens(random, 500 + random.below(300));
      for (int turn = 0; turn < 4; ++turn) {
        talk = site.turn(talk, 40 + random.below(200));
        say_more(talk, draw_tokens(random, 30 + random.below(60)));
      }
      CHECK(site.engine("hits_used") >= 3);
      CHECK(site.engine("rings_pulled") > 0);
      CHECK(site.engine("restores_failed") == 0);
      site.cluster.advance(60s);
      site.cluster.check_idle(*site.prefill);
    }
  }

  TEST_CASE("without rings the same blocks are replayed into the same tokens") {
    tenants_site site{7};
    test::rng random{7};
    const auto prompt = draw_tokens(random, 900);
    site.turn(prompt, 8);
    // the rings of this prompt lie behind its last block, too near its end to be of use
    site.turn(prompt, 8);
    CHECK(site.engine("hits_used") == 1);
    CHECK(site.engine("tokens_replayed") > 0);
  }

  TEST_CASE("tenants share a listed prompt's whole blocks and nothing else, also after purges") {
    for (const uint64_t seed : {21, 22, 23}) {
      CAPTURE(seed);
      test::rng random{seed};
      const auto listed = draw_tokens(random, 400);  // three blocks and a piece
      sim_options options;
      options.public_prompts = {listed};
      tenants_site site{seed, options};
      auto prompt = listed;
      for (const int32_t id : draw_tokens(random, 300)) prompt.push_back(id);
      // nobody has been here: all is computed; then she finds all of hers
      CHECK(site.cached("alice", prompt) == 0);
      CHECK(site.cached("alice", prompt) == 5 * 128);
      // the very same prompt of others: what she wrote is as if it were not there
      CHECK(site.cached("bob", prompt) == 3 * 128);
      CHECK(site.cached("bob", prompt) == 5 * 128);
      auto differs = prompt;
      differs[300] = differs[300] == 2 ? 3 : 2;
      CHECK(site.cached("carol", differs) == 2 * 128);

      // hers goes, and whatever it goes with stays what it was for others
      const uint64_t stored = site.stored();
      CHECK(stored == 3 + 2 + 2 + 3);  // listed, hers, his, and carol's behind two listed ones
      CHECK(site.purge_tenant("alice") == 2);
      CHECK(site.stored() == stored - 2);
      CHECK(site.cached("alice", prompt) == 3 * 128);
      CHECK(site.cached("bob", prompt) == 5 * 128);
      CHECK(site.purge_tenant("alice") == 2);
      CHECK(site.purge_tenant("bob") == 2);
      CHECK(site.purge_tenant("carol") == 3);
      CHECK(site.stored() == 3);
      // what is listed goes by an order of its own; without it, what is behind is out of reach
      CHECK(site.cached("bob", prompt) == 3 * 128);
      CHECK(site.purge(storage::public_scope()) == 3);
      CHECK(site.stored() == 2);
      CHECK(site.cached("bob", prompt) == 0);
      CHECK(site.cached("bob", prompt) == 5 * 128);
      site.cluster.advance(60s);
      site.cluster.check_idle(*site.prefill);
    }
  }

  TEST_CASE("a store that dies or comes back costs time and no token") {
    for (const uint64_t seed : {11, 12, 13, 14, 15, 16}) {
      CAPTURE(seed);
      tenants_site site{seed};
      test::rng random{seed};
      auto talk = draw_tokens(random, 700);
      talk = site.turn(talk, 60);
      const auto known = site.engine("hits_used");
      sim_request request{.prompt = talk, .max_tokens = 30, .ignore_eos = true};
      const auto client = site.cluster.send(*site.gateway, request);
      site.cluster.advance(std::chrono::microseconds{random.below(20'000)});
      site.cluster.kill("s:1");
      site.cluster.advance(20s);
      CHECK(client->state() == sim_client::outcome::complete);
      site.cluster.check_answer(request, *client);
      site.turn(talk, 20);
      site.cluster.start("s:1", {node_role::kvstore});
      site.cluster.advance(20s);
      site.turn(talk, 20);
      CHECK(site.engine("hits_used") > known);
    }
  }
}
