#include "tests/support/failing_cluster.hpp"

#include <doctest/doctest.h>

#include <fstream>

/// Whole clusters by seed: the seed picks shape, load, delays, losses, deaths, partitions, clients
/// that leave or read slowly, and which actor runs next. DEEPINFER_SIM_SEEDS sets how many seeds
/// run, DEEPINFER_SIM_FIRST the first.
using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

namespace {

struct open_request {
  sim_request request;
  std::shared_ptr<sim_client> client;
  bool slow = false;
};

class fault_run : failing_cluster {
public:
  explicit fault_run(uint64_t seed) : failing_cluster(seed, draw_options) {
    add("g:1", {node_role::gateway, node_role::controller});
    const uint32_t prefills = 1 + random_.below(2), decodes = 1 + random_.below(2);
    for (uint32_t i = 0; i < prefills; ++i)
      add("p" + std::to_string(i) + ":1", {node_role::prefill});
    for (uint32_t i = 0; i < decodes; ++i) add("d" + std::to_string(i) + ":1", {node_role::decode});
    if (random_.below(3) == 0) add("x:1", {node_role::prefill, node_role::decode});
  }

  void run(answers_tally& sum) {
    sum_ = &sum;
    cluster_.advance(3s);
    for (int step = 0; step < 40; ++step) {
      act();
      cluster_.advance(std::chrono::milliseconds(random_.below(400)));
    }
    heal();
    finish();
  }

private:
  static sim_options draw_options(test::rng& random) {
    sim_options o;
    o.network.delay = std::chrono::microseconds(10 + random.below(5000));
    o.network.jitter = std::chrono::microseconds(random.below(5000));
    if (random.below(3) == 0) o.network.loss_per_million = 100 + random.below(1000);
    o.model.stop_per_1000 = random.below(60);
    o.settings.request.limits.credit_window = 4 + random.below(40);
    o.settings.request.time_limit = 60s;
    for (engine_config* e : {&o.settings.prefill, &o.settings.decode}) {
      e->planner.max_sequences = 1 + random.below(8);
      e->planner.max_waiting = 1 + random.below(20);
      e->planner.chunk_tokens = 8 + random.below(120);
      e->planner.step_tokens = 64 + random.below(200);
      e->staging_bytes = (random.below(3) == 0) ? (64 << 10) : (8 << 20);
    }
    return o;
  }

  void act() {
    const uint32_t what = random_.below(20);
    if (what < 11) return send();
    if (what == 11) return leave();
    if (what == 12) return kill_one();
    if (what < 15) return restart_dead();
    if (what == 15) return split(2);
    if (what == 16) return cluster_.network.heal();
    if (what == 17) return leave_one();
    for (auto& open : open_)
      if (open.slow) open.client->read_all();
  }

  void send() {
    sim_request r;
    const uint32_t length = 1 + random_.below(random_.below(5) == 0 ? 400 : 40);
    for (uint32_t i = 0; i < length; ++i)
      r.prompt.push_back(static_cast<int32_t>(2 + random_.below(60)));
    r.max_tokens = 1 + random_.below(60);
    if (random_.below(2) == 0) r.sampling = {1.0f, 1.0f, 0, random_.next()};
    r.stream = random_.below(4) != 0;
    if (random_.below(4) == 0) r.choices = 2 + random_.below(5);
    if (random_.below(3) == 0) r.logprobs = random_.below(21);
    if (random_.below(4) == 0) r.stop_at = static_cast<int32_t>(2 + random_.below(60));
    const bool slow = random_.below(5) == 0;
    open_.push_back({r, cluster_.send(gateway(), r, slow ? 40 : sim_client::unlimited), slow});
  }

  void leave() {
    if (open_.empty()) return;
    auto& one = open_[random_.below(static_cast<uint32_t>(open_.size()))];
    if (one.client->state() == sim_client::outcome::open) one.client->leave();
  }

  void kill_one() {
    if (const sim_node* victim = pick_victim()) cluster_.kill(victim->address);
  }

  void leave_one() {
    if (const sim_node* victim = pick_victim()) cluster_.leave(victim->address);
  }

  void restart_dead() {
    if (const auto all = dead(); !all.empty()) restart(all.front());
  }

  // I-13: everything ends within a bounded time, with or without the client's help.
  void finish() {
    for (int i = 0; i < 700; ++i) {
      for (auto& open : open_) open.client->read_all();
      cluster_.advance(100ms);
    }
    for (const auto& open : open_) {
      sum_->count(*open.client);
      CAPTURE(static_cast<int>(open.client->state()));
      cluster_.check_answer(open.request, *open.client);
      if (!open.client->left()) CHECK(open.client->state() != sim_client::outcome::open);
      // Nothing hangs until its time limit: what is lost is noticed long before.
      CHECK_FALSE(open.client->late());
    }
    check_idle();
    serves_again();
  }

  void check_idle() {
    for (const auto& [address, roles] : roles_) {
      CAPTURE(address);
      cluster_.check_idle(*cluster_.find(address));
    }
  }

  // After all faults are healed the cluster works as if nothing had been. (With losses going on,
  // a request may still fail after its last re-route.)
  void serves_again() {
    const sim_request r{.prompt = {5, 6, 7}, .max_tokens = 5};
    std::string why;
    for (int attempt = 0; attempt < 5; ++attempt) {
      const auto client = cluster_.send(gateway(), r);
      cluster_.advance(10s);
      if (client->state() == sim_client::outcome::complete) {
        CHECK(client->tokens() == cluster_.expected(r));
        return;
      }
      why += client->text() + "; ";
    }
    CAPTURE(why);
    FAIL_CHECK("no request succeeds after all faults are healed");
  }

  std::vector<open_request> open_;
  answers_tally* sum_ = nullptr;
};

/// The numbers in `seeds.txt`, whose place the build tells.
std::vector<uint64_t> remembered_seeds() {
  std::ifstream in{DEEPINFER_SEEDS_FILE};
  REQUIRE(in);
  std::vector<uint64_t> seeds;
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line[0] != '#') seeds.push_back(std::stoull(line));
  return seeds;
}

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("seeds that once failed stay fixed") {
    answers_tally sum;
    for (const uint64_t seed : remembered_seeds()) {
      CAPTURE(seed);
      fault_run{seed}.run(sum);
    }
  }

  TEST_CASE("under faults of any kind no token is wrong, lost or doubled, and everything ends") {
    const uint64_t first = number_from("DEEPINFER_SIM_FIRST", 1);
    const uint64_t count = number_from("DEEPINFER_SIM_SEEDS", 200);
    answers_tally sum;
    for (uint64_t seed = first; seed < first + count; ++seed) {
      CAPTURE(seed);
      fault_run{seed}.run(sum);
    }
    MESSAGE(sum.complete << " complete, " << sum.refused << " refused, " << sum.broken_off
                         << " broken off, " << sum.left << " left by their client, over " << count
                         << " seeds");
    if (count >= 50) {
      CHECK(sum.complete > sum.refused + sum.broken_off);
      CHECK(sum.refused + sum.broken_off > 0);
      CHECK(sum.left > 0);
    }
  }
}
