#pragma once

#include "tests/support/failing_cluster.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace deepinfer::test {

/// Talks over one engine of each kind and some stores, of which the first is "s:1".
class cache_site {
public:
  using tokens = std::vector<int32_t>;

  explicit cache_site(uint64_t seed, const sim_options& options = {}) : cluster(seed, options) {
    gateway = &cluster.start("g:1", {node_role::gateway, node_role::controller});
    prefill = &cluster.start("p:1", {node_role::prefill});
    cluster.start("d:1", {node_role::decode});
    cluster.start("s:1", {node_role::kvstore});
    cluster.advance(std::chrono::seconds{5});
  }

  /// One turn of a talk, checked against the oracle; what was said so far, answer included.
  tokens turn(const tokens& prompt, uint32_t max_tokens) {
    return turn(prompt, max_tokens, [] {});
  }
  /// In its middle something happens, which it gets over.
  template <class Meanwhile>
  tokens turn(const tokens& prompt, uint32_t max_tokens, const Meanwhile& meanwhile) {
    const sim_request request{.prompt = prompt, .max_tokens = max_tokens, .ignore_eos = true};
    const auto client = cluster.send(*gateway, request);
    meanwhile();
    cluster.advance(std::chrono::seconds{8});
    REQUIRE(client->state() == sim_client::outcome::complete);
    cluster.check_answer(request, *client);
    tokens next = prompt;
    next.insert(next.end(), client->tokens().begin(), client->tokens().end());
    return next;
  }

  /// A figure of the prefill engine.
  int64_t engine(const std::string& counter) {
    return cluster.counters(*prefill, inspectable_actor{prefill->actors.engines.at(0)})[counter];
  }

  sim_cluster cluster;
  sim_node* gateway = nullptr;
  sim_node* prefill = nullptr;
};

/// What the next turn of a talk adds.
inline void say_more(std::vector<int32_t>& talk, const std::vector<int32_t>& words) {
  talk.insert(talk.end(), words.begin(), words.end());
}

}  // namespace deepinfer::test
