#include "tests/support/sim_cluster.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

namespace {

const std::set<node_role> gateway_roles{node_role::gateway, node_role::controller};
const std::set<node_role> prefill_roles{node_role::prefill};
const std::set<node_role> decode_roles{node_role::decode};
const std::set<node_role> all_roles{node_role::gateway, node_role::prefill, node_role::decode,
                                    node_role::controller};

sim_request draw_request(test::rng& random) {
  sim_request r;
  const uint32_t length = 1 + random.below(random.below(5) == 0 ? 400 : 40);
  for (uint32_t i = 0; i < length; ++i)
    r.prompt.push_back(static_cast<int32_t>(2 + random.below(60)));
  r.max_tokens = 1 + random.below(40);
  if (random.below(2) == 0) r.sampling = {1.0f, 1.0f, 0, random.next()};
  r.ignore_eos = random.below(4) == 0;
  r.stream = random.below(4) != 0;
  if (random.below(3) == 0) r.choices = 1 + random.below(8);
  if (random.below(3) == 0) r.logprobs = random.below(21);
  if (random.below(4) == 0) r.stop_at = static_cast<int32_t>(2 + random.below(60));
  return r;
}

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("one node with all roles answers as the oracle says") {
    sim_options options;
    options.model.stop_per_1000 = 30;
    sim_cluster cluster{1, options};
    sim_node& node = cluster.start("a:1", all_roles);
    cluster.advance(2s);
    test::rng random{7};
    for (int i = 0; i < 20; ++i) {
      const sim_request request = draw_request(random);
      const auto client = cluster.send(node, request);
      cluster.advance(5s);
      CHECK(client->state() == sim_client::outcome::complete);
      cluster.check_answer(request, *client);
    }
    cluster.advance(60s);
    cluster.check_idle(node);
  }

  TEST_CASE("gateway, prefill and decode on three nodes find each other and answer alike") {
    sim_options options;
    options.model.stop_per_1000 = 30;
    sim_cluster cluster{2, options};
    sim_node& gateway = cluster.start("a:1", gateway_roles);
    cluster.start("b:1", prefill_roles);
    cluster.start("c:1", decode_roles);
    cluster.advance(3s);
    test::rng random{9};
    for (int i = 0; i < 20; ++i) {
      const sim_request request = draw_request(random);
      const auto client = cluster.send(gateway, request);
      cluster.advance(5s);
      CHECK(client->state() == sim_client::outcome::complete);
      cluster.check_answer(request, *client);
    }
  }

  TEST_CASE("a client that does not read stops its own sequence only, and gets all of it later") {
    sim_options options;
    options.settings.request.limits.credit_window = 16;
    sim_cluster cluster{3, options};
    sim_node& node = cluster.start("a:1", all_roles);
    cluster.advance(2s);
    sim_request request{.prompt = {5, 6, 7}, .max_tokens = 500, .ignore_eos = true};
    const auto slow = cluster.send(node, request, 64);
    const auto quick = cluster.send(node, request);
    cluster.advance(5s);
    CHECK(quick->state() == sim_client::outcome::complete);
    CHECK(slow->state() == sim_client::outcome::open);
    CHECK(slow->tokens().size() < 64);
    for (int i = 0; i < 500 && slow->state() == sim_client::outcome::open; ++i) {
      slow->read_all();
      cluster.advance(10ms);
    }
    CHECK(slow->state() == sim_client::outcome::complete);
    cluster.check_answer(request, *slow);
  }

  TEST_CASE("a client that leaves frees everything within a second of virtual time") {
    sim_cluster cluster{4, {}};
    sim_node& gateway = cluster.start("a:1", gateway_roles);
    sim_node& prefill = cluster.start("b:1", prefill_roles);
    sim_node& decode = cluster.start("c:1", decode_roles);
    cluster.advance(3s);
    std::vector<std::shared_ptr<sim_client>> clients;
    for (int i = 0; i < 30; ++i)
      clients.push_back(
          cluster.send(gateway,
                       {.prompt = std::vector<int32_t>(static_cast<size_t>(1 + 10 * i), 5),
                        .max_tokens = 100000,
                        .ignore_eos = true},
                       200));
    cluster.advance(500ms);
    for (const auto& client : clients) client->leave();
    cluster.advance(1s);
    cluster.check_idle(gateway);
    cluster.check_idle(prefill);
    cluster.check_idle(decode);
  }

  TEST_CASE("without engines a request gets a clear refusal, not silence") {
    sim_cluster cluster{5, {}};
    sim_node& gateway = cluster.start("a:1", gateway_roles);
    cluster.advance(2s);
    const auto client = cluster.send(gateway, {.prompt = {5}});
    cluster.advance(10s);
    CHECK(client->state() == sim_client::outcome::error_status);
    CHECK(client->status() == 503);
  }

  TEST_CASE("the same seed gives the same run") {
    const auto run = [](uint64_t seed) {
      sim_options options;
      options.network.loss_per_million = 300;
      sim_cluster cluster{seed, options};
      sim_node& gateway = cluster.start("a:1", gateway_roles);
      cluster.start("b:1", prefill_roles);
      cluster.start("c:1", decode_roles);
      cluster.advance(3s);
      test::rng random{seed};
      std::string story;
      for (int i = 0; i < 5; ++i) {
        const auto client = cluster.send(gateway, draw_request(random));
        cluster.advance(700ms);
        story += client->text() + "|" + std::to_string(static_cast<int>(client->state())) + ";";
      }
      const auto stats = gateway.transport->stats();
      return story + std::to_string(stats.frames_sent) + "/" +
             std::to_string(stats.frames_received);
    };
    for (uint64_t seed = 1; seed < 4; ++seed) CHECK(run(seed) == run(seed));
  }
}
