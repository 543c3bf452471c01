#include "actors/cache/kv_sweep.hpp"

#include "tests/actor/cache/held_io.hpp"
#include "tests/actor/cache/store_site.hpp"

namespace deepinfer {

using namespace std::chrono_literals;
using test::held_io;
using test::make_chain;
using test::store_site;

namespace {

/// A store with its upkeep, which runs until the site ends; the held I/O actor is the upkeep's.
struct swept_site : held_io, store_site {
  kv_sweep_config sweeping;
  kv_sweep_actor sweep;

  ~swept_site() {
    caf::anon_send_exit(sweep, caf::exit_reason::kill);
    run();
    sweep = nullptr;
  }
  void start() {
    open();
    kv_sweep_setup setup;
    setup.config = sweeping;
    setup.backing = backing;
    setup.hub = &home.hub;
    setup.store = local;
    setup.wall = [this] { return wall(); };
    setup.spawn_io = [this] { return held_io::spawn(home.world); };
    sweep = home.world.system.spawn(kv_sweep, setup);
  }
};

}  // namespace

TEST_SUITE_BEGIN("actors/cache/kv_sweep");

TEST_CASE("what has ended is removed by itself, and those who wait for changes hear of it") {
  swept_site site;
  site.config.store.ttl_chat = 64s;
  site.start();
  const auto chain = make_chain("a", 1, 4);
  site.put(chain, 0, 4);
  site.advance(60s);
  CHECK(site.gauge("blocks") == 4);
  wire::draft<wire::KvChangesQuery> question;
  const auto all = site.backing.store->changes_after({site.backing.store->epoch(), 0}, 100);
  question->setEpoch(all.next.epoch);
  question->setSequence(all.next.sequence);
  question->setLimit(100);
  question->setWaitMs(30'000);
  auto waiting =
      site.peer.world.start_ask<wire::msg<wire::KvChanges>>(site.store, question.freeze());
  site.run();
  CHECK_FALSE(waiting.ready());
  site.advance(10s);
  CHECK(site.gauge("blocks") == 0);
  REQUIRE(waiting.ready());
  REQUIRE(waiting.get());
  const auto batch = read_changes(waiting.get()->get());
  REQUIRE(batch);
  REQUIRE(batch->changes.size() == 4);
  for (const auto& change : batch->changes) CHECK(change.kind == storage::change_kind::removed);
}

TEST_CASE("a full store makes room for new blocks by itself") {
  swept_site site;
  site.start();
  for (uint64_t i = 0; i < 40; ++i) {
    const auto chain = make_chain("a", i, 8, 60 << 10);  // 40 times 512 KiB, in 8 MiB
    const auto outcomes = site.put(chain, 0, 8);
    CHECK(std::count(outcomes.begin(), outcomes.end(), wire::KvPutOutcome::STORED) == 8);
    for (const uint64_t lease : site.released())
      static_cast<void>(site.staging->leases().release(lease));
    site.advance(3s);
  }
  const auto stats = site.backing.store->stats();
  CHECK(stats.file_bytes <= stats.capacity_bytes);
  CHECK(stats.evicted > 100);
}

TEST_CASE("every block is verified within the set time, also a damaged one that nobody reads") {
  swept_site site;
  site.sweeping.scrub_pass = 100s;
  site.start();
  const auto chain = make_chain("a", 1, 8);
  site.put(chain, 0, 8);
  site.advance(100s);
  CHECK(site.backing.store->stats().scrubbed_bytes >= 8 * chain.length);
  REQUIRE(site.medium.damage());
  while (site.backing.store->stats().quarantined == 0) {
    static_cast<void>(site.medium.damage());  // some hit what no block uses
    site.advance(100s);
  }
  CHECK(site.gauge("blocks") < 8);
}

TEST_CASE("a slow device holds one round up, and no more are begun") {
  swept_site site;
  site.start();
  site.held = true;
  site.advance(10s);
  CHECK(site.kept.size() == 1);
}

TEST_CASE("the share of a round is that of its time, and small shares add up") {
  kv_sweep_config config;
  config.scrub_pass = 1000s;
  double owed = 0;
  uint64_t sum = 0;
  for (int i = 0; i < 1000; ++i) sum += scrub_budget(config, 500, 1s, owed);
  CHECK(sum >= 500);
  CHECK(sum <= 600);
  config.scrub_bytes = 10;
  CHECK(scrub_budget(config, 1 << 20, 500s, owed) == 10);
}

TEST_SUITE_END();

}  // namespace deepinfer
