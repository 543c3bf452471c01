#include "tests/actor/serve/persist_world.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace {

using namespace deepinfer;
using namespace deepinfer::test;
using std::chrono::seconds;

std::vector<int32_t> some_prompt(uint64_t seed, size_t tokens) {
  rng random{seed};
  std::vector<int32_t> prompt(tokens);
  for (int32_t& id : prompt) id = static_cast<int32_t>(2 + random.below(60));
  return prompt;
}

void run(persist_world& w, size_t prompt_tokens, uint32_t max_tokens) {
  w.prompt = some_prompt(prompt_tokens, prompt_tokens);
  w.submit_prefill(max_tokens);
  w.submit_decode();
  REQUIRE(w.notes->ended);
  REQUIRE(w.notes->tokens.size() == max_tokens);
}

}  // namespace

TEST_SUITE("actors/serve") {
  TEST_CASE("a decode engine stores prompt and generated blocks with the bytes of a cold run") {
    for (const size_t prompt : {size_t{1}, size_t{127}, size_t{128}, size_t{129}, size_t{700}}) {
      CAPTURE(prompt);
      persist_world w;
      run(w, prompt, 600);
      // The last output is chosen but never computed.
      CHECK(w.check_blocks(0) == (prompt + 599) / 128);
      int64_t bytes = 0;
      for (const auto& m : w.notes->blocks) bytes += static_cast<int64_t>(m.keys.size()) * 256;
      CHECK(w.budget->used() == static_cast<uint64_t>(bytes));
    }
  }

  TEST_CASE("a sequence that ends between two steps stores no block that it never took") {
    for (size_t moment = 1; moment < 150; ++moment) {
      CAPTURE(moment);
      persist_world w;
      // the first generated block is full after a few steps: the cancel comes around it
      w.prompt = some_prompt(5, 250);
      w.submit_prefill(300);
      w.start_decode();
      for (size_t i = 0; i < moment; ++i) static_cast<void>(w.world.run_one());
      w.cancel(w.decode);
      std::vector<int32_t> known = w.prompt;
      known.insert(known.end(), w.notes->tokens.begin(), w.notes->tokens.end());
      for (const persist_blocks& m : w.notes->blocks) {
        const size_t end = (m.first_block + m.keys.size()) * model::cache_block_tokens;
        REQUIRE(end <= known.size());
      }
      static_cast<void>(w.check_blocks(0));
    }
  }

  TEST_CASE("storing changes no token") {
    persist_world with;
    run(with, 300, 500);
    persist_options nothing;
    nothing.persist_by = "nobody";
    persist_world without{nothing};
    run(without, 300, 500);
    CHECK(with.notes->tokens == without.notes->tokens);
    CHECK(without.notes->blocks.empty());
    CHECK(without.notes->rings.empty());
  }

  TEST_CASE("without a line, or with no store in the cluster, nothing is stored") {
    persist_options options;
    options.root = 0;
    persist_world w{options};
    run(w, 300, 200);
    CHECK(w.notes->blocks.empty());
    CHECK(w.notes->rings.empty());
    persist_world lonely;
    lonely.budget->open(0);
    run(lonely, 300, 200);
    CHECK(lonely.notes->blocks.empty());
  }

  TEST_CASE("prefill stores the prompt alone, both store everything") {
    persist_options options;
    options.persist_by = "prefill";
    persist_world w{options};
    run(w, 700, 300);
    CHECK(w.check_blocks(0) == 5);
    options.persist_by = "both";
    persist_world both{options};
    run(both, 700, 300);
    // The decode engine gives the prompt again: only the writer knows that it is stored.
    REQUIRE(both.notes->blocks.size() > 2);
    std::erase_if(both.notes->blocks, [n = 0](const persist_blocks&) mutable { return n++ < 2; });
    CHECK(both.check_blocks(0) == (700 + 299) / 128);
  }

  TEST_CASE("a full budget cuts the chain: what comes later is not stored either") {
    persist_options options;
    options.budget = 3 * 256;
    options.group_blocks = 2;
    persist_world w{options};
    run(w, 700, 600);
    CHECK(w.check_blocks(0) == 2);  // of five; the second group did not fit
    CHECK(w.budget->used() == 2 * 256);
    persist_world later{options};
    later.prompt = some_prompt(9, 200);
    later.submit_prefill(900);
    later.submit_decode(500);
    CHECK(later.check_blocks(0) == 3);
    later.budget->give(3 * 256);  // room again, but a parent is missing now
    later.grant(500);
    CHECK(later.notes->ended);
    CHECK(later.check_blocks(0) == 3);
  }

  TEST_CASE("rings are kept at the prompt's last block and at every block decoded, the last ones") {
    persist_world w;
    run(w, 300, 400);
    std::vector<int32_t> all = w.prompt;
    all.insert(all.end(), w.notes->tokens.begin(), w.notes->tokens.end());
    std::vector<storage::block_key> keys;
    storage::chain_hasher hasher{w.root(), model::cache_block_tokens};
    REQUIRE(hasher.append(all, {}, keys));
    // 300 tokens: block 2 ends at 256; then 384, 512, 640 are decoded.
    REQUIRE(w.notes->rings.size() == 4);
    for (size_t i = 0; i < 4; ++i) {
      const keep_rings& rings = w.notes->rings[i];
      CHECK(rings.key == keys[1 + i]);
      CHECK(rings.layout == w.model->info().layout);
      const auto cold = w.cold_run(std::span{all}.first((2 + i) * 128));
      const auto expected = w.model->export_rings(*cold);
      REQUIRE(rings.parts->size() == expected.size());
      for (size_t k = 0; k < expected.size(); ++k)
        CHECK((*rings.parts)[k].bytes == expected[k].bytes);
    }
    CHECK_FALSE(w.notes->rings[0].replaces);
    CHECK_FALSE(w.notes->rings[1].replaces);  // another engine's are not its to replace
    CHECK(w.notes->rings[2].replaces == keys[2]);
  }

  TEST_CASE("blocks that are everybody's go to the stores as a chain of their own") {
    for (const char* by : {"decode", "prefill"})
      for (uint32_t shared = 0; shared <= 6; ++shared)
        for (const uint32_t group : {1u, 2u, 4u, 64u}) {
          CAPTURE(by);
          CAPTURE(shared);
          CAPTURE(group);
          persist_options options;
          options.persist_by = by;
          options.shared_blocks = shared;
          options.group_blocks = group;
          persist_world w{options};
          run(w, 700, 300);
          const bool decode = options.persist_by == "decode";
          CHECK(w.check_blocks(0) == (decode ? (700 + 299) / 128 : 5));
        }
  }

  TEST_CASE("rings where everybody's blocks end are everybody's, and nobody replaces them") {
    for (uint32_t shared = 0; shared <= 3; ++shared) {
      CAPTURE(shared);
      persist_options options;
      options.shared_blocks = shared;
      persist_world w{options};
      run(w, 300, 400);
      std::vector<int32_t> all = w.prompt;
      all.insert(all.end(), w.notes->tokens.begin(), w.notes->tokens.end());
      const auto keys = w.keys_of(all);
      REQUIRE(w.notes->rings.size() == 4);
      for (uint32_t i = 0; i < 4; ++i) {
        CHECK(w.notes->rings[i].key == keys[1 + i]);
        CHECK(w.notes->rings[i].scope == w.scope_at(1 + i));
      }
      CHECK_FALSE(w.notes->rings[1].replaces);
      // block 2 is the decode engine's first; with three shared blocks it is not its own
      CHECK(w.notes->rings[2].replaces == (shared < 3 ? keys[2] : storage::block_key{}));
      CHECK(w.notes->rings[3].replaces == keys[3]);
    }
  }

  TEST_CASE("a prompt shorter than a useful hit keeps no rings") {
    persist_world w;
    run(w, 200, 20);
    CHECK(w.notes->rings.empty());
  }

  TEST_CASE("a hand-over that nobody takes is stored by the prefill engine") {
    for (const bool cancelled : {true, false}) {
      CAPTURE(cancelled);
      persist_world w;
      w.prompt = some_prompt(3, 700);
      w.submit_prefill(50);
      CHECK(w.notes->blocks.empty());
      if (cancelled)
        w.cancel(w.prefill);  // routed anew, or the client left
      else
        w.world.advance(seconds{40});  // the lease ends
      CHECK(w.check_blocks(0) == 5);
    }
  }

  TEST_CASE("a hand-over whose receiver dies is stored, one that was taken is not stored twice") {
    persist_world w;
    w.prompt = some_prompt(3, 700);
    w.submit_prefill(50);
    caf::anon_send_exit(w.client, caf::exit_reason::kill);
    w.world.run();
    CHECK(w.check_blocks(0) == 5);
    persist_world taken;
    run(taken, 700, 20);
    taken.cancel(taken.prefill);
    taken.world.advance(seconds{60});
    CHECK(taken.check_blocks(0) == 5);
  }

  TEST_CASE("a long hand-over that nobody takes is read out in pieces, other things in between") {
    persist_options options;
    options.context_limit = 65'536;
    persist_world w{options};
    w.prompt = some_prompt(3, 400 * 128 + 5);
    w.submit_prefill(50);
    const auto figures = [&w] {
      return w.node.world.start_ask<wire::msg<wire::ActorInfo>>(engine_actor{w.prefill},
                                                                wire::msg<wire::Inspect>{});
    };
    const auto read = [](const auto& answer, const char* name) {
      for (const auto counter : answer.get()->get().getCounters())
        if (std::string_view{name} == counter.getName().cStr()) return counter.getValue();
      return int64_t{0};
    };
    w.node.world.shuffle(1);  // otherwise an actor that talks to itself goes on for ever
    w.start_cancel(w.prefill);
    int64_t before = 0, longest = 0;
    for (int i = 0; i < 20; ++i) {
      const auto answer = figures();
      while (!answer.ready()) REQUIRE(w.world.run_one());
      longest = std::max(longest, read(answer, "blocks_persisted") - before);
      before = read(answer, "blocks_persisted");
    }
    CHECK(longest < 256);
    w.world.run();
    CHECK(w.check_blocks(0) == 400);
    w.world.run();
    const auto last = figures();
    w.world.run();
    CHECK(read(last, "staged") == 0);
    CHECK(read(last, "handovers_read_out") == 0);
  }

  TEST_CASE("a hand-over that is released while it is being read out is read no further") {
    persist_options options;
    options.context_limit = 65'536;
    uint32_t some = 0;
    for (size_t moment = 0; moment < 8; ++moment) {
      CAPTURE(moment);
      persist_world w{options};
      w.prompt = some_prompt(3, 200 * 128 + 5);
      w.submit_prefill(50);
      w.start_cancel(w.prefill);
      for (size_t i = 0; i < moment; ++i) static_cast<void>(w.world.run_one());
      wire::draft<wire::LeaseRelease> release;
      release->setId(w.notes->ready[0].get().getSequence().getLease().getId());
      caf::anon_send(engine_actor{w.prefill}, release.freeze());
      w.world.run();
      const uint32_t stored = w.check_blocks(0);
      some += stored > 0 && stored < 200;
      const auto drained = w.node.world.start_ask<wire::msg<wire::Ack>>(w.prefill, drain_engine{});
      w.world.run();
      CHECK(drained.ready());  // nothing is left
    }
    CHECK(some > 0);
  }

  TEST_CASE("a request that ends with its first token is stored by the prefill engine") {
    for (const char* by : {"decode", "both", "nobody"}) {
      CAPTURE(by);
      persist_options options;
      options.persist_by = by;
      persist_world w{options};
      w.prompt = some_prompt(3, 300);
      w.submit_prefill(1);
      CHECK(w.notes->ended);
      CHECK(w.check_blocks(0) == (options.persist_by == "nobody" ? 0 : 2));
    }
  }
}
