#include "tests/actor/serve/hit_world.hpp"

#include <doctest/doctest.h>

/// What a prefill engine does with a hint: whatever its peers do, the tokens are those of a cold
/// run, and nothing that was taken for the hit stays taken.
namespace {

using namespace deepinfer;
using namespace deepinfer::test;
using namespace std::chrono_literals;

constexpr uint32_t block = model::cache_block_tokens;

/// A prompt of five full blocks, whose peers answer at once.
struct hit_run : hit_world {
  explicit hit_run(const hit_options& with = {}) : hit_world(with) {}

  /// Submits, and finishes; how many tokens came from the cache.
  uint32_t run(uint32_t hit_blocks = 5, uint32_t ring_blocks = 0) {
    submit(prompt, 1, hit_blocks, ring_blocks);
    world.run();
    return finish(prompt, 1);
  }
  void check(uint32_t cached_blocks, uint32_t used) {
    CHECK(finish(prompt, 1) == cached_blocks * block);
    REQUIRE(fetch->releases.size() == 1);
    CHECK(fetch->releases[0].get().getUsedBlocks() == used);
    check_nothing_left();
  }

  prompt_tokens prompt = some_prompt(3, 700);
};

}  // namespace

TEST_SUITE("actors/serve") {
  TEST_CASE("a prompt starts behind what is stored of it") {
    hit_run w;
    w.answer_all(w.prompt);
    w.submit(w.prompt, 1, 5);
    w.world.run();
    REQUIRE(w.fetch->fetches.size() == 1);
    const auto asked = w.fetch->fetches[0].what.get();
    CHECK(asked.getKeys().size() == 5 * storage::key_bytes);
    CHECK(asked.getTokens().size() == 5 * block * sizeof(int32_t));
    w.check(5, 5);
    CHECK(w.figure("hits_used") == 1);
    CHECK(w.figure("tokens_replayed") == model::toy_exact_tokens);
  }

  TEST_CASE("a hit whose first blocks are everybody's is asked for by its two chains") {
    for (uint32_t shared = 1; shared <= 5; ++shared)
      for (const uint32_t rings : {0u, 5u}) {
        CAPTURE(shared);
        CAPTURE(rings);
        hit_run w{{.shared_blocks = shared}};
        w.answer_all(w.prompt);
        CHECK(w.run(5, rings) == 5 * block);  // the checksums are of these keys
        REQUIRE(w.fetch->fetches.size() == 1);
        const auto asked = w.fetch->fetches[0].what.get();
        const auto keys = keys_as_data(w.keys_of(w.prompt));
        REQUIRE(asked.getKeys().size() == keys.size());
        CHECK(std::memcmp(asked.getKeys().begin(), keys.data(), keys.size()) == 0);
        CHECK(asked.getSharedBlocks() == shared);
        CHECK(asked.getGroups().size() == 2);  // 5 blocks in groups of 4, however they are cut
        CHECK(w.figure("rings_pulled") == (rings == 0 ? 0 : 1));
        w.check_nothing_left();
      }
  }

  TEST_CASE("the memory of a fetch process is mapped no longer than that process is asked") {
    hit_run w;
    w.answer_all(w.prompt);
    CHECK(w.run() == 5 * block);
    CHECK(w.figure("arenas_mapped") == 1);
    w.tell_members(w.away.hub.export_actor(w.fetcher));  // news of somebody else
    CHECK(w.figure("arenas_mapped") == 1);
    w.tell_members(failure{error_code::unreachable, "gone"});
    CHECK(w.figure("arenas_mapped") == 0);
    w.check_nothing_left();
  }

  TEST_CASE("an answer of a fetch process that is asked no more is used and not kept mapped") {
    hit_run w;
    w.submit(w.prompt, 1, 5);
    w.world.run();
    w.tell_members(failure{error_code::unreachable, "gone"});
    w.answer(0, w.prompt);
    w.world.run();
    CHECK(w.figure("arenas_mapped") == 0);
    w.check(5, 5);
  }

  TEST_CASE("rings that are kept right behind the hit replace the replay") {
    hit_run w;
    w.answer_all(w.prompt);
    CHECK(w.run(5, 5) == 5 * block);
    CHECK(w.figure("rings_pulled") == 1);
    CHECK(w.figure("tokens_replayed") == 0);
    w.check_nothing_left();
  }

  TEST_CASE("what of a hit came is measured, and how long it took") {
    hit_run w;
    w.submit(w.prompt, 1, 5, 5);
    w.world.advance(30ms);
    w.answer_rings(0, w.stage_rings(w.cold_rings(w.prompt, 5)));
    w.world.advance(40ms);
    w.answer(0, w.prompt);
    w.world.run();
    CHECK(w.finish(w.prompt, 1) == 5 * block);
    const auto near = [](double value) { return doctest::Approx(value).epsilon(0.01); };
    REQUIRE(w.fetch_took.seconds.size() == 1);
    CHECK(w.fetch_took.seconds[0] == near(0.070));
    CHECK(w.fetch_took.bytes == 5.0 * w.model->block_bytes());
    REQUIRE(w.rings_took.seconds.size() == 1);
    CHECK(w.rings_took.seconds[0] == near(0.030));
    CHECK(w.rings_took.bytes > 0);
    CHECK(w.swap_took.seconds.size() == 1);
    CHECK(w.swap_took.bytes == 5.0 * w.model->block_bytes());
    // what does not come is no time that anything took
    w.submit(w.prompt, 2, 5, 5);
    w.world.advance(3s);
    CHECK(w.finish(w.prompt, 2) == 0);
    CHECK(w.fetch_took.seconds.size() == 1);
    CHECK(w.rings_took.seconds.size() == 1);
    CHECK(w.swap_took.seconds.size() == 1);
  }

  TEST_CASE("no fetch process, no hit: nobody is asked") {
    hit_run w;
    w.tell_members(failure{error_code::not_found, "none"});
    CHECK(w.run() == 0);
    CHECK(w.fetch->fetches.empty());
    w.check_nothing_left();
  }

  TEST_CASE("blocks that come too late are computed, and their answer changes nothing") {
    for (const bool answers : {true, false}) {
      CAPTURE(answers);
      hit_run w;
      w.submit(w.prompt, 1, 5);
      w.world.run();
      REQUIRE(w.fetch->fetches.size() == 1);
      w.world.advance(1400ms);
      CHECK(w.notes->ready.empty());  // the process is waited for: it answers by its deadline
      w.world.advance(200ms);
      REQUIRE(w.notes->ready.size() == 1);
      CHECK(w.figure("fetches_failed") == 1);
      if (answers) w.answer(0, w.prompt);
      w.world.run();
      w.check(0, 0);
    }
  }

  TEST_CASE("blocks that come when the prompt's request is over change nothing") {
    hit_run w;
    w.submit(w.prompt, 1, 5);
    w.world.run();
    w.cancel(1);
    w.world.run();
    CHECK(w.fetch->releases.size() == 1);
    w.answer(0, w.prompt);
    w.world.advance(5s);
    CHECK(w.notes->ready.empty());
    w.check_nothing_left();
  }

  TEST_CASE("of fewer blocks than were hinted as many are used") {
    for (uint32_t came = 0; came <= 5; ++came) {
      CAPTURE(came);
      hit_run w;
      w.answer_all(w.prompt, {.blocks = came});
      w.submit(w.prompt, 1, 5);
      w.world.run();
      const uint32_t used = came < 2 ? 0 : came;  // of one block too little is saved
      w.check(used, used);
      CHECK(w.figure("hits_shortened") == (came < 5 ? 1 : 0));
      CHECK(w.figure("blocks_bad") == 0);
    }
  }

  TEST_CASE("what lies before the first bad block is used, the rest is computed") {
    for (int32_t bad = 0; bad < 5; ++bad)
      for (const bool cut : {false, true}) {
        CAPTURE(bad);
        CAPTURE(cut);
        hit_run w;
        answer_edits edits;
        (cut ? edits.short_at : edits.bad_at) = bad;
        w.answer_all(w.prompt, edits);
        w.submit(w.prompt, 1, 5);
        w.world.run();
        const auto used = static_cast<uint32_t>(bad < 2 ? 0 : bad);
        w.check(used, used);
        CHECK(w.figure("blocks_bad") == 1);
        CHECK(w.figure("holds_ran_out") == 0);
      }
  }

  TEST_CASE("rings of a longer hit are of no use for a shorter one") {
    for (uint32_t came = 2; came < 5; ++came) {
      CAPTURE(came);
      hit_run w;
      w.answer_all(w.prompt, {.blocks = came});
      CHECK(w.run(5, 5) == came * block);
      CHECK(w.figure("rings_pulled") == 1);
      CHECK(w.figure("restores_refused") == 0);
      CHECK(w.figure("tokens_replayed") == model::toy_exact_tokens);
      w.check_nothing_left();
    }
  }

  TEST_CASE("rings that nobody gives are replayed") {
    for (const char* how : {"silent", "refuses", "other kinds", "too long", "other bytes"}) {
      CAPTURE(how);
      hit_run w;
      w.answer_all(w.prompt);
      w.rings->on_pull = [&w, how = std::string{how}](size_t n) {
        if (how == "silent") return;
        auto& promise = w.rings->promises[n];
        if (how == "refuses") {
          promise.deliver(to_caf({error_code::not_found, "gone"}));
          return;
        }
        auto parts = w.cold_rings(w.prompt, 5);
        if (how == "other kinds") parts = w.cold_blocks(w.prompt, 2);
        if (how == "too long") parts[0].bytes.resize(200'000);
        auto staged = w.stage_rings(parts);
        if (how == "other bytes") staged.parts[0].digest_lo ^= 1;
        w.answer_rings(n, staged);
      };
      w.submit(w.prompt, 1, 5, 5);
      w.world.advance(2s);
      CHECK(w.finish(w.prompt, 1) == 5 * block);
      CHECK(w.figure("rings_pulled") == 0);
      CHECK(w.figure("rings_missed") == 1);
      CHECK(w.figure("tokens_replayed") == model::toy_exact_tokens);
      w.check_nothing_left();
    }
  }

  TEST_CASE("rings of other tokens are no rings of this prompt") {
    hit_run w;
    w.answer_all(w.prompt);
    // a host of another layout would give what does not fit: the model refuses it
    w.rings->on_pull = [&w](size_t n) {
      auto parts = w.cold_rings(w.prompt, 5);
      parts[0].bytes.pop_back();
      w.answer_rings(n, w.stage_rings(parts));
    };
    CHECK(w.run(5, 5) == 0);
    CHECK(w.figure("restores_refused") == 1);
    w.check_nothing_left();
  }

  TEST_CASE("memory that cannot be mapped is a miss") {
    const std::vector<answer_edits> all{
        {.foreign_descriptor = true}, {.foreign_epoch = true}, {.outside = true}};
    for (const answer_edits& edits : all) {
      hit_run w;
      w.answer_all(w.prompt, edits);
      w.submit(w.prompt, 1, 5);
      w.world.run();
      w.check(0, 0);
      CHECK(w.figure("fetches_failed") == 1);
    }
  }

  TEST_CASE("a fetch process that dies is a miss") {
    hit_run w;
    w.submit(w.prompt, 1, 5);
    w.world.run();
    caf::anon_send_exit(w.fetcher, caf::exit_reason::kill);
    w.world.advance(2s);
    CHECK(w.finish(w.prompt, 1) == 0);
    CHECK(w.figure("fetches_failed") == 1);
    w.fetch->fetches.clear();  // nobody is left who could be told
    w.fetch->releases.clear();
    w.check_nothing_left();
  }

  TEST_CASE("a machine that is lost while it fetches, or while its rings are read, is a miss") {
    hit_options slow;
    slow.network.delay = 1ms;
    for (int phase = 0; phase < 2; ++phase) {
      CAPTURE(phase);
      hit_run w{slow};
      if (phase == 1) w.fetch->on_fetch = [&w](size_t n) { w.answer(n, w.prompt); };
      w.rings->on_pull = [&w](size_t n) {
        w.answer_rings(n, w.stage_rings(w.cold_rings(w.prompt, 5)));
      };
      w.submit(w.prompt, 1, 5, 5);
      w.world.advance(2500us);  // the host's answer is there, its bytes are not
      w.world.network.kill("away");
      w.world.advance(5s);
      CHECK(w.finish(w.prompt, 1) == (phase == 0 ? 0 : 5 * block));
      CHECK(w.figure("sequences") == 0);
      CHECK(w.figure("ring_pulls") == 0);
      CHECK(w.swap_figure("copy_bytes") == 0);
    }
  }

  TEST_CASE("a hit that waits for a place passes none, and takes its blocks when its turn comes") {
    hit_options narrow;
    narrow.max_sequences = 1;
    hit_run w{narrow};
    const auto other = hit_world::some_prompt(4, 400);
    w.answer_all(w.prompt);
    w.submit(other, 2, 0);
    w.submit(w.prompt, 1, 5);
    w.world.run();
    CHECK(w.finish(other, 2) == 0);
    w.check(5, 5);
  }

  TEST_CASE("with timeout blocks are waited for as long as computing them would take") {
    for (const char* policy : {"timeout", "wait"})
      for (const uint32_t within : {300, 5000})
        for (const bool rated : {false, true}) {
          CAPTURE(policy);
          CAPTURE(within);
          CAPTURE(rated);
          hit_options options;
          options.fetch_policy = policy;
          options.fetch_within = std::chrono::milliseconds{within};
          options.token_takes = rated ? 1ms : 0ms;
          hit_run w{options};
          const auto other = hit_world::some_prompt(4, 400);
          w.submit(other, 2, 0);  // tells how fast the engine computes
          w.world.run();
          CHECK(w.finish(other, 2) == 0);
          w.submit(w.prompt, 1, 5);
          w.world.run();
          REQUIRE(w.fetch->fetches.size() == 1);
          const uint32_t saved =
              w.model->plan_restore(700, 5, model::restore_mode::exact).start;  // a ms each
          const bool counts = rated && std::string_view{policy} == "timeout";
          const uint32_t deadline = counts ? std::min(within, saved) : within;
          CHECK(w.fetch->fetches[0].what.get().getDeadlineMs() == deadline);
          CHECK(w.fetch->hurries.empty());
          w.world.advance(std::chrono::milliseconds{deadline});
          CHECK(w.notes->ready.size() == 1);  // of the other
          w.answer(0, w.prompt, {.blocks = 3});
          w.world.run();
          w.check(3, 3);
        }
  }

  TEST_CASE("the request's own deadline is the last for its blocks, whatever the policy") {
    for (const char* policy : {"timeout", "wait", "best_effort"}) {
      CAPTURE(policy);
      hit_options options;
      options.fetch_policy = policy;
      options.fetch_within = 600s;
      hit_run w{options};
      w.submit(w.prompt, 1, 5);
      w.world.run();
      REQUIRE(w.fetch->fetches.size() == 1);
      CHECK(w.fetch->fetches[0].what.get().getDeadlineMs() == 120'000);
    }
  }

  TEST_CASE("with best_effort an idle engine takes what is there and computes the rest at once") {
    for (uint32_t there = 0; there <= 5; ++there) {
      CAPTURE(there);
      hit_options options;
      options.fetch_policy = "best_effort";
      hit_run w{options};
      w.answer_when_hurried(w.prompt, there);
      w.submit(w.prompt, 1, 5);
      w.world.run();
      CHECK(w.fetch->hurries.size() == 1);
      const uint32_t used = there < 2 ? 0 : there;  // of one block too little is saved
      w.check(used, used);
      CHECK(w.figure("hits_hurried") == 1);
      CHECK(w.figure("fetches_failed") == 0);
    }
  }

  TEST_CASE("with best_effort blocks may come as long as others have the engine") {
    for (const bool all_came : {true, false}) {
      CAPTURE(all_came);
      hit_options narrow;
      narrow.fetch_policy = "best_effort";
      narrow.fetch_within = 10s;
      narrow.max_sequences = 1;
      narrow.staging_bytes = 2560;  // of one of them
      hit_run w{narrow};
      const auto first = hit_world::some_prompt(4, 400), second = hit_world::some_prompt(5, 700);
      w.submit(first, 2, 0);
      w.submit(second, 3, 0);  // computed, and keeps the place: the staging area is full
      w.submit(w.prompt, 1, 5);
      w.world.advance(500ms);
      REQUIRE(w.fetch->fetches.size() == 1);
      CHECK(w.fetch->hurries.empty());
      if (all_came) w.answer(0, w.prompt);
      w.answer_when_hurried(w.prompt, 4);
      w.world.run();
      CHECK(w.finish(first, 2) == 0);
      CHECK(w.finish(second, 3) == 0);
      CHECK(w.fetch->hurries.size() == (all_came ? 0 : 1));
      w.check(all_came ? 5 : 4, all_came ? 5 : 4);
    }
  }

  TEST_CASE("with best_effort a fetch process that says nothing holds nobody up") {
    hit_options options;
    options.fetch_policy = "best_effort";
    hit_run w{options};
    w.submit(w.prompt, 1, 5);
    w.world.run();
    CHECK(w.notes->ready.empty());
    w.world.advance(10ms);
    CHECK(w.notes->ready.size() == 1);
    CHECK(w.figure("fetches_failed") == 1);
    w.answer(0, w.prompt);
    w.world.run();
    w.check(0, 0);
  }

  TEST_CASE("with best_effort rings that are on their way are replayed instead") {
    hit_options options;
    options.fetch_policy = "best_effort";
    hit_run w{options};
    w.answer_when_hurried(w.prompt, 5);
    w.submit(w.prompt, 1, 5, 5);
    w.world.run();
    REQUIRE(w.rings->pulls.size() == 1);
    CHECK(w.figure("rings_missed") == 1);
    CHECK(w.figure("tokens_replayed") == model::toy_exact_tokens);
    w.answer_rings(0, w.stage_rings(w.cold_rings(w.prompt, 5)));  // late, and given back
    w.world.run();
    CHECK(w.finish(w.prompt, 1) == 5 * block);
    w.check_nothing_left();
  }

  TEST_CASE("hits that are being fetched are the queue of the next one (KV-27)") {
    hit_options options;
    options.token_takes = 1ms;
    hit_run w{options};
    w.submit(w.prompt, 1, 5);
    w.world.advance(100ms);
    w.answer(0, w.prompt);  // 1280 bytes in 100 ms
    w.world.run();
    CHECK(w.finish(w.prompt, 1) == 5 * block);
    const auto other = hit_world::some_prompt(4, 400);
    w.submit(other, 2, 0);  // 1000 tokens a second
    w.world.run();
    CHECK(w.finish(other, 2) == 0);
    // a hit saves 568 ms and takes 100 ms, behind each that came before
    const uint32_t saved = w.model->plan_restore(700, 5, model::restore_mode::exact).start;
    const uint32_t worth_it = (saved - 1) / 100;
    for (uint32_t i = 0; i < worth_it + 2; ++i) {
      w.submit(w.prompt, 10 + i, 5);
      w.world.run();
    }
    CHECK(w.fetch->fetches.size() == 1 + worth_it);
    CHECK(w.figure("restore_computing_is_faster") == 2);
  }

  TEST_CASE("blocks that were overwritten behind the end of their hold are not said to be bad") {
    for (const bool in_time : {true, false}) {
      CAPTURE(in_time);
      hit_options narrow;
      narrow.max_sequences = 1;
      narrow.staging_bytes = 2560;  // of one of them
      hit_run w{narrow};
      w.answer_all(w.prompt, {.hold_ms = 2000});
      const auto first = hit_world::some_prompt(4, 400), second = hit_world::some_prompt(5, 700);
      w.submit(first, 2, 0);
      w.submit(second, 3, 0);  // computed, and keeps the place: the staging area is full
      w.submit(w.prompt, 1, 5);
      w.world.run();
      REQUIRE(w.notes->ready.size() == 1);
      w.world.advance(in_time ? 500ms : 3500ms);
      w.spoil_arena();
      CHECK(w.finish(first, 2) == 0);
      CHECK(w.finish(second, 3) == 0);
      w.check(0, 0);
      CHECK(w.figure("blocks_bad") == in_time);
      CHECK(w.figure("holds_ran_out") == !in_time);
    }
  }

  TEST_CASE("copies stay within their limit: hits take turns, and a longer one is cut") {
    hit_options tight;
    tight.copy_bytes = 3 * 256;
    hit_run w{tight};
    w.answer_all(w.prompt);
    for (uint64_t number = 1; number <= 4; ++number) w.submit(w.prompt, number, 5);
    w.world.run();
    CHECK(w.swap_figure("copy_bytes_peak") == 3 * 256);
    for (uint64_t number = 1; number <= 4; ++number) CHECK(w.finish(w.prompt, number) == 3 * block);
    CHECK(w.swap_figure("hits_cut") == 4);
    w.check_nothing_left();
  }

  TEST_CASE("a request that is cancelled at any moment leaves nothing, and disturbs no other") {
    for (const std::string policy : {"timeout", "best_effort"})
      for (const uint32_t ring_blocks : {0u, 5u})
        for (size_t moment = 0; moment < 90; ++moment) {
          CAPTURE(policy);
          CAPTURE(ring_blocks);
          CAPTURE(moment);
          hit_options options;
          options.fetch_policy = policy;
          hit_run w{options};
          w.answer_all(w.prompt);
          if (policy == "best_effort") {
            w.fetch->on_fetch = nullptr;
            w.answer_when_hurried(w.prompt, 5);
          }
          w.submit(w.prompt, 1, 5, ring_blocks);
          w.submit(w.prompt, 2, 5, ring_blocks);
          for (size_t i = 0; i < moment; ++i) static_cast<void>(w.world.run_one());
          w.cancel(1);
          w.world.run();
          CHECK(w.finish(w.prompt, 2) == 5 * block);
          w.world.advance(60s);  // what was handed over before the cancel
          w.check_nothing_left();
        }
  }

  TEST_CASE("an engine that is drained at any moment answers when nothing is left") {
    hit_options slow;
    slow.network.delay = 100us;
    for (const bool cancelled : {false, true})
      for (size_t moment = 0; moment < 60; ++moment) {
        CAPTURE(cancelled);
        CAPTURE(moment);
        hit_run w{slow};
        w.answer_all(w.prompt);
        w.submit(w.prompt, 1, 5, 5);
        for (size_t i = 0; i < moment; ++i) {
          if (!w.world.run_one()) w.world.advance(20us);
        }
        auto drained = w.node.world.start_ask<wire::msg<wire::Ack>>(w.prefill, drain_engine{});
        if (cancelled) w.cancel(1);
        bool early = false;
        for (int i = 0; i < 4000 && w.notes->ready.empty(); ++i) {
          if (!w.world.run_one()) w.world.advance(50us);
          if (!drained.ready()) continue;
          // Rings that are being read belong to somebody, and so does the memory they come into;
          // that they were given back is on its way.
          w.world.advance(101us);
          early = early || w.rings->released.size() != w.rings->promises.size();
          if (cancelled) break;
        }
        CHECK_FALSE(early);
        if (!w.notes->ready.empty()) {
          if (!cancelled) CHECK_FALSE(drained.ready());
          CHECK(w.finish(w.prompt, 1) == 5 * block);
        }
        w.world.advance(60s);
        CHECK(drained.ready());
        w.check_nothing_left();
      }
  }
}
