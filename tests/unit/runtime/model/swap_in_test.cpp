#include "runtime/model/swap_in.hpp"

#include "tests/support/swap_loader.hpp"
#include "tests/unit/runtime/model/sequence_runs.hpp"

#include <atomic>
#include <thread>

// Prefix hits whose blocks arrive while the rest of the prompt is being computed.

using namespace deepinfer;
using namespace deepinfer::model;
using test::prompt_case;

namespace {

using sequence_ptr = std::unique_ptr<sequence>;

// What a cache holds of one prompt: blocks, and the rings behind each.
struct cached_prompt {
  test::block_bytes_list blocks;
  std::vector<std::vector<state_part>> rings;  ///< [i]: behind i blocks

  // Its rows up to the last block, of a prompt that goes on for long: rings without decoder rows.
  cached_prompt(v41_model& model, const prompt_case& prompt) {
    const sequence_ptr target = model.make_sequence();
    rings.push_back(model.export_rings(*target));
    while (target->computed_tokens() + block_tokens < prompt.size()) {
      test::feed_until(model, prompt, *target, target->computed_tokens() + block_tokens);
      rings.push_back(model.export_rings(*target));
      REQUIRE(rings.back().size() >= 2);
    }
    const auto full = target->computed_tokens() / block_tokens;
    for (state_part& part : model.export_blocks(*target, 0, full))
      blocks.push_back(std::move(part.bytes));
  }
  [[nodiscard]] test::block_bytes_list first(uint32_t hit) const {
    return {blocks.begin(), blocks.begin() + hit / block_tokens};
  }
};

restored_sequence begin(const v41_model& model,
                        const prompt_case& prompt,
                        const cached_prompt& cache,
                        restore_plan plan,
                        restore_mode mode) {
  restore_source source{prompt.tokens, plan.hit, mode, {}, prompt.images};
  if (mode == restore_mode::ring) source.rings = cache.rings[plan.hit / block_tokens];
  auto begun = model.begin_restore(source);
  REQUIRE_MESSAGE(begun, (begun ? "" : begun.error().detail));
  CHECK(begun->state->computed_tokens() == plan.start);
  CHECK(begun->loading->blocks() == plan.hit / block_tokens);
  CHECK(begun->loading->stages() == model.config().kv_sources.size());
  return *std::move(begun);
}

const swap_gate& gate_of(const std::shared_ptr<swap_landing>& landing) {
  REQUIRE(landing);
  return landing->gate;
}

std::shared_ptr<swap_landing> landing_of(const sequence& of) {
  return static_cast<const v41_sequence&>(of).landing;
}

struct outcome {
  std::vector<int32_t> tokens;
  std::vector<state_part> state;
};

// The rest of the prompt in pieces of `piece`, then a few tokens.
outcome finish(v41_model& model, const prompt_case& prompt, sequence& target, uint32_t piece) {
  while (target.computed_tokens() + piece < prompt.size())
    test::feed_until(model, prompt, target, target.computed_tokens() + piece);
  outcome out{{test::feed(model, prompt, target)}, {}};
  const auto more = test::continued(model, target, prompt.sampling, 8);
  out.tokens.insert(out.tokens.end(), more.begin(), more.end());
  out.state = test::state_of(model, target);
  return out;
}

// The same with the blocks coming from a second thread.
outcome finish_loading(v41_model& model,
                       const prompt_case& prompt,
                       const restored_sequence& begun,
                       const test::block_bytes_list& blocks,
                       uint32_t piece,
                       uint64_t seed) {
  std::thread loader([&, landing = landing_of(*begun.state)] {
    test::rng random{seed};
    if (seed % 2 == 0) {
      test::load_racing(*begun.loading, blocks, random);
    } else {
      test::load_late(*begun.loading, landing->gate, blocks, random);
    }
  });
  outcome out = finish(model, prompt, *begun.state, piece);
  loader.join();
  return out;
}

outcome warm_run(v41_model& model,
                 const prompt_case& prompt,
                 const cached_prompt& cache,
                 uint32_t hit,
                 restore_mode mode) {
  std::vector<state_part> parts;
  if (mode == restore_mode::ring) parts = cache.rings[hit / block_tokens];
  for (uint32_t i = 0; i < hit / block_tokens; ++i)
    parts.push_back({part_kind::block, i, cache.blocks[i]});
  auto warm = model.restore({parts, prompt.tokens, hit, prompt.images}, mode);
  REQUIRE(warm);
  return finish(model, prompt, **warm, prompt.size());
}

constexpr restore_mode all_modes[] = {restore_mode::ring, restore_mode::bounded,
                                      restore_mode::exact};

// Every hit of the prompt in every mode, in pieces of several sizes.
uint32_t check_every_hit(v41_model& model, const prompt_case& prompt, uint64_t seed) {
  const cached_prompt cache(model, prompt);
  const sequence_ptr cold = model.make_sequence();
  const outcome want = finish(model, prompt, *cold, prompt.size());
  uint32_t runs = 0;
  for (const restore_mode mode : all_modes)
    for (uint32_t blocks = 1; blocks <= cache.blocks.size(); ++blocks) {
      const restore_plan plan = model.plan_restore(prompt.size(), blocks, mode);
      CHECK(plan.hit <= blocks * block_tokens);
      if (plan.hit != blocks * block_tokens) continue;
      CAPTURE(static_cast<int>(mode));
      CAPTURE(plan.hit);
      const outcome expected =
          mode == restore_mode::bounded ? warm_run(model, prompt, cache, plan.hit, mode) : want;
      for (const uint32_t piece : {prompt.size(), 17u}) {
        const restored_sequence begun = begin(model, prompt, cache, plan, mode);
        const outcome got =
            finish_loading(model, prompt, begun, cache.first(plan.hit), piece, ++seed);
        CHECK(got.tokens == expected.tokens);
        CHECK(test::difference(got.state, expected.state) == "");
        ++runs;
      }
    }
  return runs;
}

struct mixed_prompts {
  prompt_case fresh, decoding;

  explicit mixed_prompts(test::prompt_maker& maker)
      : fresh(maker.text(90)), decoding(maker.text(40)) {
    fresh.sampling = decoding.sampling = {.temperature = 1, .seed = 3};
  }
};

// A step over one sequence whose blocks arrive, and neighbours that have nothing to wait for.
struct mixed_batch {
  v41_model& model;
  const mixed_prompts& prompts;
  sequence_ptr fresh, decoding;

  mixed_batch(v41_model& m, const mixed_prompts& p)
      : model(m), prompts(p), fresh(m.make_sequence()), decoding(m.make_sequence()) {
    test::feed(model, prompts.decoding, *decoding);
  }
  // The neighbours' tokens of a step; `middle` stands between them.
  std::vector<int32_t> step_around(std::span<step_item> middle) {
    std::vector<step_item> items{test::chunk_of(prompts.fresh, *fresh, 90)};
    items.insert(items.end(), middle.begin(), middle.end());
    items.push_back(test::sampling(*decoding, {}, prompts.decoding.sampling));
    model.step(items);
    std::copy(items.begin() + 1, items.end() - 1, middle.begin());
    CHECK_FALSE(items.front().failed);
    CHECK_FALSE(items.back().failed);
    return {items.front().sampled, items.back().sampled};
  }
};

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("blocks that arrive during the steps give the tokens and the state of the cold run") {
    for (const char* shape : {"mini", "mini8", "mini12"})
      for (const auto& kept : {std::optional<uint32_t>(0), std::optional<uint32_t>()}) {
        CAPTURE(shape);
        CAPTURE(kept.value_or(12345));
        const auto model = test::load_named(shape, {.kept_rows = kept, .draft_tokens = 5});
        test::prompt_maker maker(*model, 21);
        prompt_case prompt = maker.text(420);
        prompt.sampling = {.temperature = 1, .seed = 6};
        maker.add_image(prompt, 100, 40);
        CHECK(check_every_hit(*model, prompt, 0) >= 10);
      }
  }

  TEST_CASE("several hits that arrive in one step do not touch each other") {
    const auto model = test::load_named("mini", {.threads = 2});
    test::prompt_maker maker(*model, 22);
    for (uint64_t seed = 0; seed < 4; ++seed) {
      CAPTURE(seed);
      std::vector<prompt_case> prompts;
      std::vector<cached_prompt> caches;
      std::vector<restored_sequence> begun;
      std::vector<sequence_ptr> colds;
      for (uint32_t i = 0; i < 3; ++i) {
        prompts.push_back(maker.text(290 + 5 * i));
        prompts.back().sampling = {.temperature = 1, .seed = i};
        caches.emplace_back(*model, prompts.back());
        const auto plan = model->plan_restore(prompts[i].size(), 2, restore_mode::exact);
        begun.push_back(begin(*model, prompts[i], caches[i], plan, restore_mode::exact));
        colds.push_back(model->make_sequence());
      }
      std::vector<step_item> items;
      for (uint32_t i = 0; i < 3; ++i)
        items.push_back(test::chunk_of(prompts[i], *begun[i].state,
                                       prompts[i].size() - begun[i].state->computed_tokens()));
      std::thread loader([&] {
        test::rng random{seed};
        for (const uint32_t i : test::shuffled(3, random))
          test::load_racing(*begun[i].loading, caches[i].blocks, random);
      });
      model->step(items);
      loader.join();
      for (uint32_t i = 0; i < 3; ++i) {
        CHECK_FALSE(items[i].failed);
        CHECK(items[i].sampled == test::feed(*model, prompts[i], *colds[i]));
        CHECK(test::difference(*model, *begun[i].state, *model, *colds[i]) == "");
      }
    }
  }

  TEST_CASE("when a stage does not come its sequence fails and its neighbours stay right") {
    for (const char* shape : {"mini", "mini12"}) {
      const auto model = test::load_named(shape, {});
      test::prompt_maker maker(*model, 23);
      const prompt_case prompt = maker.text(420);
      const cached_prompt cache(*model, prompt);
      const auto stages = static_cast<uint32_t>(model->config().kv_sources.size());
      const mixed_prompts prompts(maker);
      mixed_batch beside(*model, prompts);
      const auto want = beside.step_around({});
      for (uint32_t missing = 0; missing < stages; ++missing) {
        CAPTURE(missing);
        mixed_batch around(*model, prompts);
        const auto plan = model->plan_restore(prompt.size(), 3, restore_mode::exact);
        restored_sequence begun = begin(*model, prompt, cache, plan, restore_mode::exact);
        const auto landing = landing_of(*begun.state);
        std::thread loader([&] {
          test::rng random{missing};
          for (uint32_t stage = 0; stage < stages; ++stage) {
            if (stage == missing) continue;
            test::load_stage(*begun.loading, stage, cache.blocks, random);
            begun.loading->ready(stage);
          }
          test::await_blocked(gate_of(landing), 1);
          begun.loading->give_up();
        });
        step_item item =
            test::chunk_of(prompt, *begun.state, prompt.size() - begun.state->computed_tokens());
        CHECK(around.step_around({&item, 1}) == want);
        loader.join();
        CHECK(item.failed);
        CHECK(item.state_missing);
        CHECK(item.sampled == -1);
        CHECK(model->export_state(*begun.state).empty());
        CHECK(model->export_blocks(*begun.state, 0, 1).empty());
      }
    }
  }

  TEST_CASE(
      "a sequence whose blocks did not come fails in every later step, and is not waited for") {
    const auto model = test::load_named("mini", {.swap_wait = std::chrono::milliseconds(0)});
    test::prompt_maker maker(*model, 24);
    const prompt_case prompt = maker.text(420);
    const cached_prompt cache(*model, prompt);
    const auto plan = model->plan_restore(prompt.size(), 3, restore_mode::exact);
    restored_sequence begun = begin(*model, prompt, cache, plan, restore_mode::exact);
    for (const uint32_t size : {420 - plan.start, 5u, 1u}) {
      step_item item = test::chunk_of(prompt, *begun.state,
                                      std::min(size, 420 - begun.state->computed_tokens()));
      if (item.tokens.empty()) item.tokens = std::span(prompt.tokens).first(1);
      model->step({&item, 1});
      CHECK(item.failed);
      CHECK(item.state_missing);
    }
    step_item decode = test::sampling(*begun.state, {});
    model->step({&decode, 1});
    CHECK(decode.state_missing);
    // A loader that comes too late finds nothing to fill.
    test::rng random{1};
    test::load_racing(*begun.loading, cache.blocks, random);
    CHECK(model->export_state(*begun.state).empty());
    // And another sequence with the same blocks works.
    restored_sequence again = begin(*model, prompt, cache, plan, restore_mode::exact);
    test::load_racing(*again.loading, cache.blocks, random);
    const sequence_ptr cold = model->make_sequence();
    CHECK(finish(*model, prompt, *again.state, 420).tokens ==
          finish(*model, prompt, *cold, 420).tokens);
  }

  TEST_CASE("all hits of a step together are waited for as long as one may be") {
    const auto model =
        test::load_named("mini", {.pass_rows = 256, .swap_wait = std::chrono::milliseconds(20)});
    test::prompt_maker maker(*model, 26);
    const prompt_case prompt = maker.text(420);
    const cached_prompt cache(*model, prompt);
    const auto plan = model->plan_restore(prompt.size(), 3, restore_mode::exact);
    std::vector<restored_sequence> begun;
    std::vector<std::shared_ptr<swap_landing>> landings;
    std::vector<step_item> items;
    for (int i = 0; i < 4; ++i) {
      begun.push_back(begin(*model, prompt, cache, plan, restore_mode::exact));
      landings.push_back(landing_of(*begun.back().state));
      items.push_back(test::chunk_of(prompt, *begun.back().state, 420 - plan.start));
    }
    model->step(items);
    for (const step_item& item : items) CHECK(item.state_missing);
    CHECK(gate_of(landings[0]).blocked() == 1);
    for (size_t i = 1; i < 4; ++i) {  // the last ones in passes of their own
      CHECK(gate_of(landings[i]).blocked() == 0);
      CHECK(gate_of(landings[i]).given_up());
    }
    // Another step has patience of its own.
    restored_sequence again = begin(*model, prompt, cache, plan, restore_mode::exact);
    const auto landing = landing_of(*again.state);
    step_item item = test::chunk_of(prompt, *again.state, 420 - plan.start);
    model->step({&item, 1});
    CHECK(gate_of(landing).blocked() == 1);
  }

  TEST_CASE("a step that ran out of patience does not race with the loader") {
    const auto model = test::load_named("mini", {.swap_wait = std::chrono::milliseconds(0)});
    test::prompt_maker maker(*model, 25);
    const prompt_case prompt = maker.text(420);
    const cached_prompt cache(*model, prompt);
    const auto plan = model->plan_restore(prompt.size(), 3, restore_mode::exact);
    restored_sequence begun = begin(*model, prompt, cache, plan, restore_mode::exact);
    std::atomic<bool> over = false;
    std::atomic<uint32_t> rounds = 0;
    std::thread loader([&] {
      test::rng random{1};
      while (!over) {
        test::load_stage(*begun.loading, 0, cache.blocks, random);
        if (++rounds == 1) rounds.notify_all();
      }
    });
    rounds.wait(0);
    step_item item =
        test::chunk_of(prompt, *begun.state, prompt.size() - begun.state->computed_tokens());
    model->step({&item, 1});
    over = true;
    loader.join();
    CHECK(item.state_missing);
  }

  TEST_CASE("a loader may outlive its sequence, which may go at any time") {
    const auto model = test::load_named("mini", {});
    test::prompt_maker maker(*model, 26);
    const prompt_case prompt = maker.text(420);
    const cached_prompt cache(*model, prompt);
    const auto plan = model->plan_restore(prompt.size(), 3, restore_mode::bounded);
    restored_sequence begun = begin(*model, prompt, cache, plan, restore_mode::bounded);
    std::atomic<uint32_t> loaded = 0;
    std::thread loader([&] {
      for (uint32_t stage = 0; stage < begun.loading->stages(); ++stage) {
        for (uint32_t i = 0; i < 3; ++i) {
          CHECK(begun.loading->load(stage, i, cache.blocks[i]));
          ++loaded;
          loaded.notify_all();
        }
        begun.loading->ready(stage);
      }
      begun.loading->give_up();
    });
    loaded.wait(0);
    begun.state = nullptr;
    loader.join();
    CHECK(loaded == 3 * begun.loading->stages());
  }

  TEST_CASE("loading refuses other lengths, other places and stages that may be read already") {
    const auto model = test::load_named("mini12", {});  // a ratio of 3: blocks differ in length
    test::prompt_maker maker(*model, 27);
    const prompt_case prompt = maker.text(420);
    const cached_prompt cache(*model, prompt);
    const auto plan = model->plan_restore(prompt.size(), 3, restore_mode::exact);
    restored_sequence begun = begin(*model, prompt, cache, plan, restore_mode::exact);
    swap_in& loading = *begun.loading;
    const auto refused = [&](uint32_t stage, uint32_t block, std::span<const std::byte> whole) {
      const auto done = loading.load(stage, block, whole);
      return !done && done.error().code == error_code::invalid_argument;
    };
    auto longer = cache.blocks[1];
    longer.push_back({});
    CHECK(refused(0, 1, longer));
    CHECK(refused(0, 1, std::span(longer).first(longer.size() - 2)));
    CHECK(refused(0, 1, {}));
    CHECK(cache.blocks[1].size() != cache.blocks[0].size());
    CHECK(refused(0, 1, cache.blocks[0]));
    CHECK(refused(loading.stages(), 0, cache.blocks[0]));
    CHECK(refused(0, 3, cache.blocks[0]));
    test::rng random{2};
    test::load_stage(loading, 1, cache.blocks, random);
    loading.ready(1);
    CHECK(refused(1, 0, cache.blocks[0]));
    CHECK(model->export_state(*begun.state).empty());  // not all stages are in
    CHECK(model->export_blocks(*begun.state, 0, 1).empty());
    loading.ready(0);  // no block of which came
    step_item item = test::chunk_of(prompt, *begun.state, 1);
    item.sample = false;
    model->step({&item, 1});
    CHECK(item.state_missing);
  }

  TEST_CASE("giving up behind the last stage changes nothing") {
    const auto model = test::load_named("mini", {});
    test::prompt_maker maker(*model, 28);
    const prompt_case prompt = maker.text(300);
    const cached_prompt cache(*model, prompt);
    const auto plan = model->plan_restore(prompt.size(), 2, restore_mode::exact);
    restored_sequence begun = begin(*model, prompt, cache, plan, restore_mode::exact);
    test::rng random{3};
    test::load_racing(*begun.loading, cache.blocks, random);
    begun.loading->give_up();
    CHECK(model->export_blocks(*begun.state, 0, 1).size() == 1);
    const sequence_ptr cold = model->make_sequence();
    CHECK(finish(*model, prompt, *begun.state, 300).tokens ==
          finish(*model, prompt, *cold, 300).tokens);
  }

  TEST_CASE("a plan ends before the prompt does, at a block, and saves something") {
    const auto model = test::load_named("mini", {});  // window 16, keeps 28 rows
    const auto plan = [&](uint32_t prompt, uint32_t blocks, restore_mode mode) {
      const restore_plan p = model->plan_restore(prompt, blocks, mode);
      return std::pair(p.hit, p.start);
    };
    using pair = std::pair<uint32_t, uint32_t>;
    CHECK(plan(300, 2, restore_mode::ring) == pair(256, 256));
    CHECK(plan(300, 9, restore_mode::ring) == pair(256, 256));
    CHECK(plan(256, 2, restore_mode::bounded) == pair(128, 112));  // one token must be left
    CHECK(plan(257, 2, restore_mode::bounded) == pair(256, 240));
    CHECK(plan(283, 2, restore_mode::ring) == pair(128, 128));  // not into decoder replay
    CHECK(plan(155, 1, restore_mode::ring) == pair(0, 0));
    CHECK(plan(300, 2, restore_mode::exact) == pair(256, 256 - 6 * 15));
    CHECK(plan(300, 0, restore_mode::exact) == pair(0, 0));
    CHECK(plan(0, 3, restore_mode::exact) == pair(0, 0));
    CHECK(plan(128, 1, restore_mode::bounded) == pair(0, 0));
    CHECK(plan(300, 0xFFFFFFFF, restore_mode::bounded) == pair(256, 240));
    const auto deep = test::load_named("mini", {.kept_rows = 0});
    CHECK(deep->plan_restore(300, 1, restore_mode::exact).hit == 0);  // all of it again
    CHECK(deep->plan_restore(300, 2, restore_mode::exact).start == 256 - 10 * 15);
  }

  TEST_CASE("exported blocks and rings are those of the whole export, however they came to be") {
    for (const char* shape : {"mini", "mini8", "mini12"}) {
      CAPTURE(shape);
      const auto model = test::load_named(shape, {.draft_tokens = 5});
      test::prompt_maker maker(*model, 29);
      prompt_case prompt = maker.text(100);
      const sequence_ptr target = model->make_sequence();
      prompt.tokens.push_back(test::feed(*model, prompt, *target));
      uint32_t boundaries = 0;
      while (target->computed_tokens() < 300) {
        for (const int32_t token : test::continued(*model, *target, {}, 1, boundaries))
          prompt.tokens.push_back(token);
        const uint32_t full = target->computed_tokens() / block_tokens;
        const bool whole = target->computed_tokens() % block_tokens == 0;
        const auto rings = model->export_rings(*target);
        CHECK(rings.empty() == !whole);
        if (!whole) continue;
        ++boundaries;
        auto parts = model->export_blocks(*target, 0, full);
        parts.insert(parts.end(), rings.begin(), rings.end());
        CHECK(test::difference(parts, model->export_state(*target)) == "");
      }
      CHECK(boundaries >= 1);
      // Generated tokens leave the blocks of computed ones.
      prompt.tokens.resize(target->computed_tokens());
      const sequence_ptr prefilled = model->make_sequence();
      test::feed(*model, prompt, *prefilled);
      CHECK(test::difference(model->export_blocks(*target, 0, 2),
                             model->export_blocks(*prefilled, 0, 2)) == "");
      const auto second = model->export_blocks(*target, 1, 1);
      REQUIRE(second.size() == 1);
      CHECK(second[0].index == 1);
      CHECK(model->export_blocks(*target, 1, 2).empty());
      CHECK(model->export_blocks(*target, 3, 0).empty());
      CHECK(model->export_blocks(*target, 4, 0xFFFFFFFF).empty());
      if (model->block_bytes() != 0) CHECK(second[0].bytes.size() == model->block_bytes());
      CHECK((model->block_bytes() == 0) == (std::string_view(shape) == "mini12"));
    }
  }

  TEST_CASE("rings of a restore must be rings, of this layout and these tokens") {
    const auto model = test::load_named("mini", {});
    test::prompt_maker maker(*model, 30);
    const prompt_case prompt = maker.text(420);
    const cached_prompt cache(*model, prompt);
    const auto accepted = [&](std::span<const state_part> rings, restore_mode mode) {
      return model->begin_restore({prompt.tokens, 256, mode, rings, {}}).has_value();
    };
    const auto& rings = cache.rings[2];
    CHECK(accepted(rings, restore_mode::ring));
    CHECK_FALSE(accepted({}, restore_mode::ring));
    CHECK_FALSE(accepted(std::span(rings).first(1), restore_mode::ring));
    CHECK_FALSE(accepted(cache.rings[1], restore_mode::ring));
    CHECK_FALSE(accepted(rings, restore_mode::exact));
    auto more = rings;
    more.push_back({part_kind::block, 0, cache.blocks[0]});
    CHECK_FALSE(accepted(more, restore_mode::ring));
    const auto other = test::load_named("mini", {.level = numeric_level::L2});
    CHECK_FALSE(other->begin_restore({prompt.tokens, 256, restore_mode::ring, rings, {}}));
    prompt_case foreign = prompt;
    foreign.tokens[255] = foreign.tokens[255] == 3 ? 4 : 3;
    CHECK_FALSE(model->begin_restore({foreign.tokens, 256, restore_mode::ring, rings, {}}));
    std::vector<int32_t> beyond(model->info().context_limit + 1, 3);
    CHECK_FALSE(model->begin_restore({beyond, 256, restore_mode::exact, {}, {}}));
  }
}
