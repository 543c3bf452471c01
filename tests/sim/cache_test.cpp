#include "tests/support/sim_cluster.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

namespace {

std::vector<int32_t> draw_tokens(test::rng& random, uint32_t count) {
  std::vector<int32_t> out;
  for (uint32_t i = 0; i < count; ++i) out.push_back(static_cast<int32_t>(2 + random.below(60)));
  return out;
}

/// A node for each duty; prompts and answers go through all of them.
struct cache_site {
  explicit cache_site(uint64_t seed, const sim_options& options = {}) : cluster(seed, options) {
    gateway = &cluster.start("g:1", {node_role::gateway, node_role::controller});
    prefill = &cluster.start("p:1", {node_role::prefill});
    cluster.start("d:1", {node_role::decode});
    cluster.start("s:1", {node_role::kvstore});
    cluster.advance(5s);
  }

  /// One turn of a talk: asked, checked against the oracle, and what follows it.
  std::vector<int32_t> turn(const std::vector<int32_t>& prompt, uint32_t max_tokens) {
    sim_request request{.prompt = prompt, .max_tokens = max_tokens, .ignore_eos = true};
    const auto client = cluster.send(*gateway, request);
    cluster.advance(8s);
    CHECK(client->state() == sim_client::outcome::complete);
    cluster.check_answer(request, *client);
    std::vector<int32_t> next = prompt;
    next.insert(next.end(), client->tokens().begin(), client->tokens().end());
    return next;
  }

  int64_t engine(const std::string& counter) {
    return cluster.counters(*prefill, inspectable_actor{prefill->actors.engines.at(0)})[counter];
  }

  sim_cluster cluster;
  sim_node* gateway = nullptr;
  sim_node* prefill = nullptr;
};

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("a talk starts behind what is stored of it, and says what it would say without") {
    for (const uint64_t seed : {1, 2, 3, 4}) {
      CAPTURE(seed);
      cache_site site{seed};
      test::rng random{seed};
      auto talk = draw_tokens(random, 500 + random.below(300));
      for (int turn = 0; turn < 4; ++turn) {
        talk = site.turn(talk, 40 + random.below(200));
        const auto more = draw_tokens(random, 30 + random.below(60));
        talk.insert(talk.end(), more.begin(), more.end());
      }
      CHECK(site.engine("hits_used") >= 3);
      CHECK(site.engine("rings_pulled") > 0);
      CHECK(site.engine("restores_failed") == 0);
      site.cluster.advance(60s);
      site.cluster.check_idle(*site.prefill);
    }
  }

  TEST_CASE("without rings the same blocks are replayed into the same tokens") {
    cache_site site{7};
    test::rng random{7};
    const auto prompt = draw_tokens(random, 900);
    site.turn(prompt, 8);
    // the rings of this prompt lie behind its last block, too near its end to be of use
    site.turn(prompt, 8);
    CHECK(site.engine("hits_used") == 1);
    CHECK(site.engine("tokens_replayed") > 0);
  }

  TEST_CASE("a store that dies or comes back costs time and no token") {
    for (const uint64_t seed : {11, 12, 13, 14, 15, 16}) {
      CAPTURE(seed);
      cache_site site{seed};
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
