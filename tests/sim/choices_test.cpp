#include "tests/support/sim_cluster.hpp"

#include <doctest/doctest.h>

/// Requests for several answers.
using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

namespace {

const std::set<node_role> gateway_roles{node_role::gateway, node_role::controller};
const std::set<node_role> all_roles{node_role::gateway, node_role::prefill, node_role::decode,
                                    node_role::controller};

sim_request hot_request(uint32_t choices, uint32_t max_tokens) {
  return {.prompt = {5, 6, 7, 8},
          .max_tokens = max_tokens,
          .sampling = {1.0f, 1.0f, 0, 99},
          .ignore_eos = true,
          .choices = choices,
          .logprobs = 2};
}

size_t all_tokens(const sim_client& client, uint32_t choices) {
  size_t count = 0;
  for (uint32_t i = 0; i < choices; ++i) count += client.choice(i).tokens.size();
  return count;
}

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("choices are answers of their own, and the first is that of a request for one") {
    sim_cluster cluster{31, {}};
    sim_node& node = cluster.start("a:1", all_roles);
    cluster.advance(2s);
    const sim_request request = hot_request(8, 30);
    for (const bool stream : {true, false}) {
      sim_request one = request;
      one.stream = stream;
      const auto all = cluster.send(node, one);
      one.choices = 1;
      const auto alone = cluster.send(node, one);
      cluster.advance(5s);
      CHECK(all->state() == sim_client::outcome::complete);
      cluster.check_answer(request, *all);
      CHECK(all->tokens() == alone->tokens());
      for (uint32_t i = 1; i < 8; ++i) CHECK(all->choice(i).tokens != all->choice(i - 1).tokens);
    }
    cluster.check_idle(node);
  }

  TEST_CASE("a stop string ends its choice and no other") {
    sim_cluster cluster{32, {}};
    sim_node& node = cluster.start("a:1", all_roles);
    cluster.advance(2s);
    sim_request request = hot_request(4, 200);
    // Early in the second choice, so the others go on behind it.
    request.stop_at = cluster.expected(request, 1).tokens.at(3);
    const auto client = cluster.send(node, request);
    cluster.advance(5s);
    CHECK(client->state() == sim_client::outcome::complete);
    cluster.check_answer(request, *client);
    CHECK(client->choice(1).tokens.size() <= 4);
    CHECK(all_tokens(*client, 4) > 16);
    cluster.check_idle(node);
  }

  TEST_CASE("a client that does not read stops all its choices, at the window of one answer") {
    sim_options options;
    options.settings.request.limits.credit_window = 32;
    sim_cluster cluster{33, options};
    sim_node& node = cluster.start("a:1", all_roles);
    cluster.advance(2s);
    sim_request request = hot_request(8, 300);
    request.logprobs.reset();
    const auto slow = cluster.send(node, request, 64);
    cluster.advance(20s);
    CHECK(slow->state() == sim_client::outcome::open);
    // What it took before it was full, and what the engines were allowed to be ahead of it.
    const int64_t computed = cluster.counters(node, node.actors.engines[0]).at("tokens") +
                             cluster.counters(node, node.actors.engines[1]).at("tokens");
    CHECK(computed <= 64 + 32 + 8);
    for (int i = 0; i < 3000 && slow->state() == sim_client::outcome::open; ++i) {
      slow->read_all();
      cluster.advance(10ms);
    }
    CHECK(slow->state() == sim_client::outcome::complete);
    cluster.check_answer(request, *slow);
    cluster.check_idle(node);
  }

  TEST_CASE("a client that leaves frees what all its choices hold") {
    sim_cluster cluster{34, {}};
    sim_node& gateway = cluster.start("a:1", gateway_roles);
    sim_node& prefill = cluster.start("b:1", {node_role::prefill});
    sim_node& decode = cluster.start("c:1", {node_role::decode});
    cluster.advance(3s);
    std::vector<std::shared_ptr<sim_client>> clients;
    for (uint32_t i = 0; i < 6; ++i)
      clients.push_back(cluster.send(gateway, hot_request(8, 2000), 200));
    cluster.advance(300ms);
    CHECK(cluster.counters(gateway, gateway.actors.gateway).at("places") == 48);
    CHECK(cluster.counters(decode, decode.actors.engines[0]).at("receivers") == 6);
    for (const auto& client : clients) client->leave();
    cluster.advance(1s);
    for (sim_node* node : {&gateway, &prefill, &decode}) cluster.check_idle(*node);
  }

  TEST_CASE("a gateway that dies leaves no sequence of any choice behind") {
    sim_options options;
    options.settings.request.limits.credit_window = 32;
    sim_cluster cluster{35, options};
    sim_node& gateway = cluster.start("a:1", gateway_roles);
    sim_node& prefill = cluster.start("b:1", {node_role::prefill});
    sim_node& decode = cluster.start("c:1", {node_role::decode});
    cluster.advance(3s);
    sim_request request = hot_request(4, 2000);
    // The first choice ends early: the others of the same receiver must still be watched.
    request.stop_at = cluster.expected(request, 0).tokens.at(2);
    const auto client = cluster.send(gateway, request, 200);
    cluster.advance(300ms);
    CHECK(cluster.counters(decode, decode.actors.engines[0]).at("sequences") > 0);
    cluster.kill("a:1");
    cluster.advance(5s);
    cluster.check_idle(prefill);
    cluster.check_idle(decode);
  }

  TEST_CASE("choices go on where an engine dies under them") {
    sim_cluster cluster{36, {}};
    sim_node& gateway = cluster.start("a:1", gateway_roles);
    cluster.start("p:1", {node_role::prefill});
    for (const char* address : {"d:1", "e:1"}) cluster.start(address, {node_role::decode});
    cluster.advance(3s);
    const sim_request request = hot_request(6, 3000);
    const auto client = cluster.send(gateway, request);
    for (int i = 0; i < 2000 && all_tokens(*client, 6) < 60; ++i) cluster.advance(1ms);
    REQUIRE(client->state() == sim_client::outcome::open);
    cluster.kill("d:1");
    cluster.advance(30s);
    CHECK(client->state() == sim_client::outcome::complete);
    cluster.check_answer(request, *client);
    cluster.check_idle(*cluster.find("e:1"));
    cluster.check_idle(gateway);
  }

  TEST_CASE("an order to stop reaches every choice, and the client hears of it") {
    for (const bool stream : {true, false}) {
      sim_cluster cluster{37, {}};
      sim_node& node = cluster.start("a:1", all_roles);
      cluster.advance(2s);
      sim_request request = hot_request(5, 100000);
      request.stream = stream;
      const auto client = cluster.send(node, request);
      cluster.advance(5ms);
      caf::anon_send(node.actors.gateway, drain_gateway{20ms});
      cluster.advance(2s);
      CHECK(client->state() ==
            (stream ? sim_client::outcome::error_event : sim_client::outcome::error_status));
      cluster.check_answer(request, *client);
      cluster.check_idle(node);
    }
  }

  TEST_CASE("a choice that fails for good fails the request once") {
    sim_options options;
    options.model.context_limit = 20;
    sim_cluster cluster{38, options};
    sim_node& gateway = cluster.start("a:1", gateway_roles);
    sim_node& prefill = cluster.start("b:1", {node_role::prefill});
    cluster.start("c:1", {node_role::decode});
    cluster.advance(3s);
    sim_request request = hot_request(3, 10);
    request.prompt.assign(20, 5);  // no engine takes it
    const auto client = cluster.send(gateway, request);
    cluster.advance(2s);
    CHECK(client->state() == sim_client::outcome::error_status);
    CHECK(client->status() == 400);
    cluster.check_idle(gateway);
    cluster.check_idle(prefill);
  }

  TEST_CASE("more choices than the limit are a mistake of the client, none or too many") {
    sim_options options;
    options.settings.request.max_choices = 3;
    sim_cluster cluster{39, options};
    sim_node& node = cluster.start("a:1", all_roles);
    cluster.advance(2s);
    for (const uint32_t choices : {0u, 4u, 1000u}) {
      const auto client = cluster.send(node, hot_request(choices, 5));
      cluster.advance(1s);
      CHECK(client->status() == 400);
    }
    sim_request curious = hot_request(1, 5);
    curious.logprobs = 21;
    const auto refused = cluster.send(node, curious);
    const auto client = cluster.send(node, hot_request(3, 5));
    cluster.advance(1s);
    CHECK(refused->status() == 400);
    CHECK(client->state() == sim_client::outcome::complete);
    cluster.check_idle(node);
  }

  TEST_CASE("every choice takes a place at the gateway, and gives it back") {
    sim_options options;
    options.settings.gateway.max_open_requests = 6;
    sim_cluster cluster{40, options};
    sim_node& node = cluster.start("a:1", all_roles);
    cluster.advance(2s);
    const auto first = cluster.send(node, hot_request(4, 100000), 100);
    cluster.advance(100ms);
    const auto too_many = cluster.send(node, hot_request(3, 5));
    cluster.advance(100ms);  // while it is encoded it holds one, too
    const auto fitting = cluster.send(node, hot_request(2, 100000), 100);
    cluster.advance(100ms);
    CHECK(too_many->status() == 503);
    CHECK(fitting->status() == 200);
    CHECK(cluster.counters(node, node.actors.gateway).at("places") == 6);
    const auto none_left = cluster.send(node, hot_request(1, 5));
    cluster.advance(100ms);
    CHECK(none_left->status() == 503);
    first->leave();
    fitting->leave();
    cluster.advance(1s);
    const auto all = cluster.send(node, hot_request(6, 5));
    cluster.advance(1s);
    CHECK(all->state() == sim_client::outcome::complete);
    cluster.check_idle(node);
  }
}
