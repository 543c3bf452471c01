#pragma once

#include "actors/messages/cache_orders.hpp"
#include "actors/messages/protocol.hpp"
#include "actors/node/node_actors.hpp"
#include "actors/node/peer_events.hpp"
#include "runtime/http/server.hpp"
#include "runtime/model/toy_model.hpp"
#include "storage/memory/memory_store.hpp"
#include "tests/support/remote_world.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace deepinfer::test {

/// A request as the simulation's clients send it; there is no API and no tokenizer.
struct sim_request {
  std::vector<int32_t> prompt;
  uint32_t max_tokens = 8;
  model::sampling_params sampling;
  bool ignore_eos = false;
  bool stream = true;
  uint32_t choices = 1;
  std::optional<uint32_t> logprobs;  ///< alternatives
  int32_t stop_at = -1;              ///< a token that stands for a stop string
  std::string tenant;                ///< credentials; empty: none
};

/// One answer to a request.
struct sim_choice {
  std::vector<int32_t> tokens;
  std::vector<uint64_t> rows;  ///< digests of the tokens' log probabilities, when asked for
  bool ended = false;

  friend bool operator==(const sim_choice&, const sim_choice&) = default;
};

/// A client and its connection. Takes what it is given at once, or slowly, or goes away.
class sim_client final : public http_responder {
public:
  enum class outcome { open, complete, error_status, error_event, cut };

  /// Takes any number of bytes at once.
  static constexpr size_t unlimited = size_t{1} << 20;

  explicit sim_client(size_t capacity) : capacity_(capacity) {}

  result<void> respond(uint16_t status,
                       std::string_view type,
                       std::string body,
                       const http_headers& extra) override;
  result<void> begin_stream(uint16_t status,
                            std::string_view type,
                            const http_headers& extra) override;
  result<size_t> write(std::string chunk) override;
  result<void> finish() override;
  void on_drain(std::function<void()> callback) override { drain_ = std::move(callback); }
  void on_closed(std::function<void(const failure&)> callback) override {
    closed_ = std::move(callback);
  }
  [[nodiscard]] size_t pending_bytes() const override { return pending_; }

  /// The client reads everything that waits.
  void read_all();
  /// The client closes its side.
  void leave();

  [[nodiscard]] outcome state() const { return state_; }
  [[nodiscard]] uint16_t status() const { return status_; }
  /// Those of the answer, or of the first of several.
  [[nodiscard]] const std::vector<int32_t>& tokens() const { return choice(0).tokens; }
  [[nodiscard]] const sim_choice& choice(uint32_t number) const;
  [[nodiscard]] bool left() const { return left_; }
  /// The answer ended at the request's time limit.
  [[nodiscard]] bool late() const { return late_; }
  [[nodiscard]] const std::string& text() const { return text_; }

private:
  void take(const std::string& bytes);
  void take_word(const std::string& word);

  size_t capacity_;
  size_t pending_ = 0;
  bool refused_ = false;
  bool left_ = false;
  bool late_ = false;
  outcome state_ = outcome::open;
  uint16_t status_ = 0;
  std::string text_, half_;
  std::map<uint32_t, sim_choice> choices_;
  std::function<void()> drain_;
  std::function<void(const failure&)> closed_;
};

struct sim_options {
  net::loop_options network;
  model::toy_options model;
  node_settings settings;
  std::vector<std::vector<int32_t>> public_prompts;
  /// Blocks are fetched by nodes of the role `fetch`, which the test starts, for all engines.
  bool fetch_apart = false;
};

/// What one actor says of itself.
struct sim_figures {
  std::string kind;
  std::map<std::string, int64_t> counters;
};

/// The wall clock of an address: virtual time and what it is off by.
using sim_clock = std::shared_ptr<std::chrono::milliseconds>;

/// One life of one simulated process.
class sim_node {
public:
  sim_node(net::loop_network& network,
           const net::loop_node& life,
           const std::set<node_role>& roles,
           const sim_options& options,
           const std::vector<std::string>& seeds,
           const kv_backing& store,
           const sim_clock& clock,
           uint64_t seed);
  ~sim_node();

  kv_backing store;  ///< of the role kvstore
  // Actors may send while they are being ended, so what carries them goes last.
  std::unique_ptr<net::transport> transport;
  std::unique_ptr<remote_hub> hub;
  actor_world world;
  std::shared_ptr<peer_events> events = std::make_shared<peer_events>();
  std::set<node_role> roles;
  std::string address;
  node_actors actors;
};

/// A cluster in one thread and one virtual time; the seed picks delays, faults and which actor
/// runs next.
class sim_cluster {
public:
  sim_cluster(uint64_t seed, const sim_options& options);
  ~sim_cluster();

  sim_node& start(const std::string& address, const std::set<node_role>& roles);
  /// kill -9: no goodbye, its actors never run again.
  void kill(const std::string& address);
  /// Says good-bye to the cluster, then ends.
  void leave(const std::string& address);
  [[nodiscard]] sim_node* find(const std::string& address);

  std::shared_ptr<sim_client> send(sim_node& gateway,
                                   const sim_request& request,
                                   size_t capacity = sim_client::unlimited);
  void run() { driver_.run(); }
  void advance(std::chrono::nanoseconds time) { driver_.advance(time); }
  [[nodiscard]] std::chrono::nanoseconds now() const { return driver_.now(); }

  /// What the oracle says a request's output is, and all of a choice.
  [[nodiscard]] std::vector<int32_t> expected(const sim_request& request) const {
    return expected(request, 0).tokens;
  }
  [[nodiscard]] sim_choice expected(const sim_request& request, uint32_t choice) const;
  /// What must hold of an answer, whatever happened to the cluster: every choice is as far as it
  /// goes what the oracle says, and a complete answer all of it.
  void check_answer(const sim_request& request, const sim_client& client) const;
  /// I-6 and I-14: after all requests ended, everything that was held is free again.
  void check_idle(sim_node& node);
  /// An operator's order at a node: nothing of the scope is stored any more.
  order_report purge(sim_node& node, const storage::cache_scope& scope);
  /// Gauges of an actor, read as the console reads them.
  [[nodiscard]] std::map<std::string, int64_t> counters(sim_node& node,
                                                        const inspectable_actor& actor);
  /// Of all actors of a node.
  [[nodiscard]] std::vector<sim_figures> figures(sim_node& node);
  /// What no node may hold for a prompt's blocks when nothing is going on.
  void check_cache_idle(sim_node& node);

  /// The wall clock at an address jumps, for this and all later lives there.
  void shift_clock(const std::string& address, std::chrono::milliseconds by) {
    *clock_at(address) += by;
  }
  /// The disk of an address that has had a store.
  [[nodiscard]] storage::memory_medium& medium(const std::string& address) {
    return media_.at(address);
  }

  net::loop_network network;

private:
  /// What lies on the disk of an address: the next life there finds it again.
  kv_backing store_at(const std::string& address);
  const sim_clock& clock_at(const std::string& address) {
    return clocks_.try_emplace(address, std::make_shared<std::chrono::milliseconds>())
        .first->second;
  }

  sim_options options_;
  uint64_t seed_;
  network_source source_;
  actor_world driver_;
  std::vector<std::unique_ptr<sim_node>> nodes_;
  std::vector<std::unique_ptr<sim_node>> graves_;
  std::vector<std::string> addresses_;
  std::map<std::string, storage::memory_medium> media_;
  std::map<std::string, sim_clock> clocks_;
  uint64_t lives_ = 0;
};

}  // namespace deepinfer::test
