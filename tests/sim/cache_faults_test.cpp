#include "tests/support/failing_cluster.hpp"

#include <doctest/doctest.h>

#include <array>

/// Talks over the shared cache, by seed, while everything around it fails: engines, stores and
/// fetch processes die and come back, disks flip bits, clocks jump, the network loses, delays and
/// splits. DEEPINFER_SIM_CACHE_SEEDS sets how many seeds run, DEEPINFER_SIM_CACHE_FIRST the first.
using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

namespace {

/// Sums over all seeds: they show that the runs use the cache, and that they break it.
struct tally : answers_tally {
  int64_t hits = 0, ring_hits = 0, shortened = 0, failed = 0, bad = 0, stored = 0, dropped = 0;
};

struct talk {
  std::string tenant;
  std::vector<int32_t> tokens;  ///< said and answered so far
  uint32_t turns = 0;           ///< left
  bool open = false;            ///< the last request has not ended
  bool left = false;
  sim_request request;
  std::shared_ptr<sim_client> client;
};

class cache_fault_run : failing_cluster {
public:
  cache_fault_run(uint64_t seed, tally& sum) : failing_cluster(seed, draw_options), sum_(sum) {
    add("g:1", {node_role::gateway, node_role::controller});
    const uint32_t prefills = 1 + random_.below(2), decodes = 1 + random_.below(2);
    for (uint32_t i = 0; i < prefills; ++i) add("p" + std::to_string(i), {node_role::prefill});
    for (uint32_t i = 0; i < decodes; ++i) add("d" + std::to_string(i), {node_role::decode});
    add("s0", {node_role::kvstore});
    add("s1", {node_role::kvstore});
    if (options_.fetch_apart) add("f", {node_role::fetch});
    for (int i = 0; i < 3; ++i) shared_.push_back(draw(150 + random_.below(700)));
  }

  void run() {
    cluster_.advance(4s);
    for (int step = 0; step < 70; ++step) {
      act();
      cluster_.advance(std::chrono::milliseconds(random_.below(500)));
    }
    heal_all();
    finish();
  }

private:
  static sim_options draw_options(test::rng& random) {
    sim_options o;
    o.network.delay = std::chrono::microseconds(10 + random.below(3000));
    o.network.jitter = std::chrono::microseconds(random.below(3000));
    if (random.below(3) == 0) o.network.loss_per_million = 50 + random.below(500);
    // wrong bytes that pass every check become wrong tokens
    o.model.import = model::toy_import::absorb;
    o.fetch_apart = random.below(2) == 0;
    o.settings.request.time_limit = 120s;
    o.settings.kvstore.replicas = 1 + random.below(2);
    o.settings.kvstore.store.group_blocks = 1u << random.below(5);
    o.settings.kvfetch.arena_bytes = 1 << 20;
    o.settings.kvfetch.batch_blocks = 1 + random.below(8);
    o.settings.kvfetch.hold = 10min;  // what is not released is seen at the end
    o.settings.cache.persist_by = std::array{"decode", "both", "prefill"}[random.below(3)];
    for (engine_config* e : {&o.settings.prefill, &o.settings.decode}) {
      e->planner.max_sequences = 2 + random.below(6);
      e->planner.chunk_tokens = 32 + random.below(300);
      e->planner.step_tokens = 64 + random.below(500);
      e->staging_bytes = 1 << 20;
    }
    return o;
  }

  std::vector<int32_t> draw(uint32_t count) { return draw_tokens(random_, count); }

  void act() {
    look();
    const uint32_t what = random_.below(24);
    if (what < 9) return speak();
    if (what < 12) return begin();
    if (what == 12) return leave();
    if (what < 15) return kill_one();
    if (what < 18) return restart_dead();
    if (what == 18) return split(3);
    if (what == 19) return cluster_.network.heal();
    if (what == 20) return shift_clock();
    if (what == 21) return spoil_disk();
    if (what == 22) return leave_cluster();
  }

  // Talks of one tenant often begin alike, and so may those of others.
  void begin() {
    if (talks_.size() >= 12) return;
    talk t;
    t.tenant = std::array{"", "alice", "bob"}[random_.below(3)];
    t.tokens = shared_[random_.below(static_cast<uint32_t>(shared_.size()))];
    t.turns = 2 + random_.below(5);
    talks_.push_back(std::move(t));
    say(talks_.back());
  }

  void speak() {
    for (talk& t : talks_)
      if (!t.open && !t.left && t.turns > 0 && random_.below(2) == 0) return say(t);
    begin();
  }

  void say(talk& t) {
    const auto more = draw(1 + random_.below(200));
    t.tokens.insert(t.tokens.end(), more.begin(), more.end());
    --t.turns;
    t.request = {.prompt = t.tokens,
                 .max_tokens = 1 + random_.below(200),
                 .ignore_eos = true,
                 .stream = random_.below(4) != 0,
                 .tenant = t.tenant};
    if (random_.below(6) == 0) t.request.choices = 2;
    t.client = cluster_.send(gateway(), t.request);
    t.open = true;
  }

  // A turn that ended is checked; only a whole answer is gone on from.
  void look() {
    for (talk& t : talks_) {
      if (!t.open || t.client->state() == sim_client::outcome::open) continue;
      t.open = false;
      cluster_.check_answer(t.request, *t.client);
      CHECK_FALSE(t.client->late());
      if (!t.client->left()) sum_.count(*t.client);  // counted when it left
      if (t.client->state() != sim_client::outcome::complete) continue;
      const auto& said = t.client->tokens();
      t.tokens.insert(t.tokens.end(), said.begin(), said.end());
    }
  }

  void leave() {
    for (talk& t : talks_) {
      if (!t.open || t.left || random_.below(2) == 0) continue;
      t.client->leave();
      t.left = true;
      ++sum_.left;
      return;
    }
  }

  void kill_one() {
    if (sim_node* victim = pick_victim()) {
      add_figures(*victim);  // they would go with it
      cluster_.kill(victim->address);
    }
  }

  void leave_cluster() {
    if (sim_node* victim = pick_victim()) {
      add_figures(*victim);
      cluster_.leave(victim->address);
    }
  }

  void restart_dead() {
    for (const std::string& address : dead())
      if (random_.below(2) == 0) return restart(address);
  }

  void shift_clock() {
    constexpr std::array jumps{-3'600'000, -1'000, 1'000, 400'000, 400'000'000};
    cluster_.shift_clock(pick_address(), std::chrono::milliseconds(jumps[random_.below(5)]));
  }

  void spoil_disk() {
    storage::memory_medium& disk = cluster_.medium(random_.below(2) == 0 ? "s0" : "s1");
    if (random_.below(2) == 0) return static_cast<void>(disk.damage());
    storage::fault_plan::chances chances;
    if (random_.below(2) == 0) chances.flipped_read = 2000;
    if (random_.below(2) == 0) chances.flipped_write = 2000;
    if (random_.below(3) == 0) chances.failed_read = 4000;
    if (random_.below(3) == 0) chances.failed_write = 4000;
    if (random_.below(4) == 0) chances.full_disk = 4000;
    disk.faults().set(chances);
  }

  void heal_all() {
    for (const char* store : {"s0", "s1"}) cluster_.medium(store).faults().set({});
    heal();
  }

  // I-13: everything ends; then nothing is held for anybody.
  void finish() {
    for (int i = 0; i < 60; ++i) {
      look();
      cluster_.advance(2s);
    }
    for (const talk& t : talks_)
      if (!t.left) CHECK_FALSE(t.open);
    serves_again();
    cluster_.advance(60s);
    for (const auto& [address, roles] : roles_) {
      CAPTURE(address);
      sim_node& node = *cluster_.find(address);
      cluster_.check_idle(node);
      cluster_.check_cache_idle(node);
      add_figures(node);
    }
  }

  // The same words twice: the second time is a hit, whatever was before.
  void serves_again() {
    const auto hits = hits_now();
    const sim_request r{.prompt = draw(700), .max_tokens = 20, .ignore_eos = true};
    int complete = 0;
    for (int attempt = 0; attempt < 8 && (complete < 2 || hits_now() == hits); ++attempt) {
      const auto client = cluster_.send(gateway(), r);
      cluster_.advance(10s);
      cluster_.check_answer(r, *client);
      complete += client->state() == sim_client::outcome::complete;
    }
    CHECK(complete >= 2);
    CHECK(hits_now() > hits);
  }

  int64_t hits_now() {
    int64_t sum = 0;
    for (const auto& [address, roles] : roles_)
      if (roles.contains(node_role::prefill)) {
        sim_node& node = *cluster_.find(address);
        sum += cluster_.counters(node, node.actors.engines.at(0))["hits_used"];
      }
    return sum;
  }

  void add_figures(sim_node& node) {
    for (sim_figures& actor : cluster_.figures(node)) {
      auto& of = actor.counters;
      if (actor.kind == "prefill") {
        sum_.hits += of["hits_used"];
        sum_.ring_hits += of["rings_pulled"];
        sum_.shortened += of["hits_shortened"];
        sum_.failed += of["fetches_failed"];
      }
      if (actor.kind == "kv_fetch") sum_.bad += of["blocks_bad"];
      if (actor.kind == "kv_writer") {
        sum_.stored += of["stored"];
        sum_.dropped += of["dropped"];
      }
    }
  }

  std::vector<std::vector<int32_t>> shared_;
  std::vector<talk> talks_;
  tally& sum_;
};

}  // namespace

TEST_SUITE("sim") {
  TEST_CASE("whatever happens to the cache, tokens are those without it and nothing stays held") {
    const uint64_t first = number_from("DEEPINFER_SIM_CACHE_FIRST", 1);
    const uint64_t count = number_from("DEEPINFER_SIM_CACHE_SEEDS", 12);
    tally sum;
    for (uint64_t seed = first; seed < first + count; ++seed) {
      CAPTURE(seed);
      cache_fault_run{seed, sum}.run();
    }
    MESSAGE(sum.complete << " complete, " << sum.refused << " refused, " << sum.broken_off
                         << " broken off, " << sum.left << " left by their client; " << sum.hits
                         << " hits, " << sum.ring_hits << " with rings, " << sum.shortened
                         << " shortened, " << sum.failed << " fetches failed, " << sum.bad
                         << " blocks bad, " << sum.stored << " stored, " << sum.dropped
                         << " dropped, over " << count << " seeds");
    if (count >= 10) {
      CHECK(sum.complete > sum.refused + sum.broken_off);
      CHECK(sum.hits > 0);
      CHECK(sum.ring_hits > 0);
      CHECK(sum.dropped > 0);
    }
  }
}
