#pragma once

#include "tests/support/sim_cluster.hpp"

#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace deepinfer::test {

/// How many seeds run, or which is the first, as the environment says.
[[nodiscard]] uint64_t number_from(const char* name, uint64_t standard);

/// Tokens that a simulated prompt is made of; none of them ends an answer.
[[nodiscard]] std::vector<int32_t> draw_tokens(rng& random, uint32_t count);

/// What became of all requests of all seeds: shows that the runs are neither trivial nor hopeless.
struct answers_tally {
  int complete = 0, refused = 0, broken_off = 0, left = 0;

  void count(const sim_client& client);
};

/// What the fault simulations share: nodes by address, of which all but the gateway "g:1" (its
/// clients would see a cut connection) may die, leave, come back and lose sight of each other.
class failing_cluster {
protected:
  failing_cluster(uint64_t seed, sim_options (*draw_options)(rng&))
      : random_(seed), options_(draw_options(random_)), cluster_(seed, options_) {}

  void add(const std::string& address, const std::set<node_role>& roles) {
    roles_[address] = roles;
    cluster_.start(address, roles);
  }

  [[nodiscard]] sim_node& gateway() { return *cluster_.find("g:1"); }

  std::string pick_address() {
    return std::next(roles_.begin(), random_.below(static_cast<uint32_t>(roles_.size())))->first;
  }
  /// A node that may die; null when the choice fell on another.
  sim_node* pick_victim() {
    const std::string address = pick_address();
    return address == "g:1" ? nullptr : cluster_.find(address);
  }

  [[nodiscard]] std::vector<std::string> dead() {
    std::vector<std::string> all;
    for (const auto& [address, roles] : roles_)
      if (cluster_.find(address) == nullptr) all.push_back(address);
    return all;
  }
  void restart(const std::string& address) { cluster_.start(address, roles_.at(address)); }

  /// Cuts the network in two; about one node in `parts` is on the first side.
  void split(uint32_t parts) {
    std::set<std::string> a, b;
    for (const auto& [address, roles] : roles_) (random_.below(parts) == 0 ? a : b).insert(address);
    cluster_.network.partition(a, b);
  }

  /// All nodes live and see each other again.
  void heal() {
    cluster_.network.heal();
    for (const std::string& address : dead()) restart(address);
  }

  rng random_;
  const sim_options options_;
  sim_cluster cluster_;
  std::map<std::string, std::set<node_role>> roles_;
};

}  // namespace deepinfer::test
