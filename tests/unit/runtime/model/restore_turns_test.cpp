#include "tests/unit/runtime/model/bare_model.hpp"
#include "tests/unit/runtime/model/sequence_runs.hpp"
#include "tests/unit/runtime/model/tiny_samples.hpp"

#include <cmath>

using namespace deepinfer;
using namespace deepinfer::model;
using test::prompt_case;

namespace {

// What a prefix cache has of an earlier turn.
struct cached_turn {
  std::vector<std::vector<state_part>> at_block;  ///< [i]: the export at i * 128 tokens
  std::vector<state_part> at_end;
  std::vector<int32_t> tokens;  ///< prompt and output

  // The blocks of a hit alone.
  [[nodiscard]] std::vector<state_part> blocks(uint32_t hit) const {
    std::vector<state_part> out;
    for (const state_part& part : at_end)
      if (part.kind == part_kind::block && part.index < hit / block_tokens) out.push_back(part);
    return out;
  }
};

// One turn: the prompt in pieces that end at blocks, then `outputs` tokens, exported on the way.
cached_turn first_turn(v41_model& model, const prompt_case& prompt, uint32_t outputs) {
  cached_turn out;
  out.tokens = prompt.tokens;
  const auto target = model.make_sequence();
  out.at_block.push_back(model.export_state(*target));
  const auto keep = [&] {
    if (target->computed_tokens() == out.at_block.size() * block_tokens)
      out.at_block.push_back(model.export_state(*target));
  };
  while (target->computed_tokens() + block_tokens < prompt.size()) {
    test::feed_until(model, prompt, *target, target->computed_tokens() + block_tokens);
    keep();
  }
  out.tokens.push_back(test::feed(model, prompt, *target));
  keep();
  while (out.tokens.size() < prompt.size() + outputs) {
    out.tokens.push_back(test::continued(model, *target, prompt.sampling, 1).front());
    keep();
  }
  out.at_end = model.export_state(*target);
  return out;
}

// The second turn's prompt: all of the first, and what the user says next.
prompt_case next_prompt(const prompt_case& first,
                        const cached_turn& cache,
                        const prompt_case& reply) {
  prompt_case out = first;
  out.tokens = cache.tokens;
  out.tokens.insert(out.tokens.end(), reply.tokens.begin(), reply.tokens.end());
  return out;
}

struct outcome {
  std::vector<int32_t> tokens;
  std::vector<state_part> state;
};

// The rest of the prompt in random pieces, then a few tokens.
outcome finish(v41_model& model, const prompt_case& prompt, sequence& target, test::rng& random) {
  while (target.computed_tokens() + 1 < prompt.size() && random.below(4) != 0)
    test::feed_until(
        model, prompt, target,
        target.computed_tokens() + 1 + random.below(prompt.size() - 1 - target.computed_tokens()));
  outcome out{{test::feed(model, prompt, target)}, {}};
  const auto more = test::continued(model, target, prompt.sampling, 6);
  out.tokens.insert(out.tokens.end(), more.begin(), more.end());
  out.state = test::state_of(model, target);
  return out;
}

// A restore by rings, where the hit can be used, and one by replay of the exact depth, against the
// cold run of the same prompt. Tokens that the exact one did not compute again.
uint32_t check_hit(v41_model& model,
                   const cached_turn& cache,
                   const prompt_case& prompt,
                   uint32_t hit,
                   const outcome& expected,
                   test::prompt_maker& maker) {
  uint32_t skipped = 0;
  for (const restore_mode mode : {restore_mode::ring, restore_mode::exact}) {
    CAPTURE(hit);
    CAPTURE(prompt.size());
    CAPTURE(static_cast<int>(mode));
    const bool ring = mode == restore_mode::ring;
    const auto parts = ring ? cache.at_block[hit / block_tokens] : cache.blocks(hit);
    auto warm = model.restore({parts, prompt.tokens, hit, prompt.images}, mode);
    if (!warm && ring) continue;  // inside decoder replay
    REQUIRE_MESSAGE(warm, (warm ? "" : warm.error().detail));
    if (ring) CHECK((*warm)->computed_tokens() == hit);
    if (!ring) skipped = (*warm)->computed_tokens();
    const outcome got = finish(model, prompt, **warm, maker.random());
    CHECK(got.tokens == expected.tokens);
    CHECK(test::difference(got.state, expected.state) == "");
  }
  return skipped;
}

outcome cold_run(v41_model& model, const prompt_case& prompt, test::prompt_maker& maker) {
  const auto cold = model.make_sequence();
  return finish(model, prompt, *cold, maker.random());
}

// Every hit of whole blocks in the second turn's prompt; then prompts that end soon behind a hit,
// where the deepest layer's windows still reach before it, and one whose kept rows begin at the
// hit.
void check_exact(std::string_view shape, const v41_options& options, uint32_t first_size) {
  CAPTURE(shape);
  CAPTURE(options.kept_rows.value_or(12345));
  const auto model = test::load_named(shape, options);
  test::prompt_maker maker(*model, 11);
  prompt_case first = maker.text(first_size);
  first.sampling = {.temperature = 1, .seed = 6};
  maker.add_image(first, 100, 40);
  maker.add_image(first, first_size - 60, 20);
  const cached_turn cache = first_turn(*model, first, 12);
  const prompt_case prompt = next_prompt(first, cache, maker.text(50));
  const outcome expected = cold_run(*model, prompt, maker);
  const auto held = static_cast<uint32_t>(cache.tokens.size() - 1);
  const uint32_t last_hit = held / block_tokens * block_tokens;
  uint32_t skipped = 0;
  for (uint32_t hit = 0; hit <= last_hit; hit += block_tokens)
    skipped += check_hit(*model, cache, prompt, hit, expected, maker);
  CHECK(skipped > 0);
  for (const uint32_t behind :
       {1u, 7u, model->config().window + 12, options.kept_rows.value_or(0)}) {
    if (behind == 0 || last_hit + behind > prompt.size()) continue;
    prompt_case cut = prompt;
    cut.tokens.resize(last_hit + behind);
    check_hit(*model, cache, cut, last_hit, cold_run(*model, cut, maker), maker);
  }
}

constexpr std::optional<uint32_t> everything{0};

// Rows of logits beside those of the cold run.
struct distances {
  uint32_t rows = 0, same = 0;  ///< with the same greedy token
  double sum = 0, worst = 0;    ///< of the largest difference in a row over its largest logit

  void add(std::span<const float> got, std::span<const float> want) {
    float difference = 0, largest = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      difference = std::max(difference, std::fabs(got[i] - want[i]));
      largest = std::max(largest, std::fabs(want[i]));
    }
    ++rows;
    same += std::ranges::max_element(got) - got.begin() ==
            std::ranges::max_element(want) - want.begin();
    sum += double{difference} / largest;
    worst = std::max(worst, double{difference} / largest);
  }
  [[nodiscard]] std::string shown() const {
    return "greedy token equal at " + std::to_string(same) + " of " + std::to_string(rows) +
           ", logits " + std::to_string(sum / rows) + " of the largest away, at most " +
           std::to_string(worst);
  }
};

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("restores by ring and by exact replay have the bits of the cold run") {
    for (const char* shape : {"mini", "mini12"})
      for (const numeric_level level : test::all_levels)
        for (const auto& [kept, variant] :
             {std::pair(everything, replay_variant::late),
              std::pair(std::optional<uint32_t>(), replay_variant::late),
              std::pair(std::optional<uint32_t>(16), replay_variant::ced)})
          check_exact(shape,
                      {.level = level, .kept_rows = kept, .replay = variant, .draft_tokens = 5},
                      400);
  }

  TEST_CASE("restores of the bundled model have the bits of the cold run") {
    check_exact("tiny", {.draft_tokens = 5}, 1000);
  }

  TEST_CASE("exact replay starts a window before the hit for every layer with rings to mend") {
    const auto model = test::load_named("mini", {});  // window 16, decoder from layer 5
    const v41_config& c = model->config();
    CHECK(restore_start(c, {}, {256, 300}, restore_mode::exact) == 256 - 10 * 15);
    CHECK(restore_start(c, {28}, {256, 300}, restore_mode::exact) == 256 - 6 * 15);
    CHECK(restore_start(c, {28}, {256, 270}, restore_mode::exact) == 242 - 6 * 15);
    CHECK(restore_start(c, {28}, {128, 300}, restore_mode::exact) == 128 - 6 * 15);
    CHECK(restore_start(c, {}, {128, 300}, restore_mode::exact) == 0);
    CHECK(restore_start(c, {28}, {256, 300}, restore_mode::bounded) == 256 - 16);
    CHECK(restore_start(c, {}, {0, 300}, restore_mode::bounded) == 0);
    CHECK(restore_start(c, {}, {256, 300}, restore_mode::ring) == 256);
  }

  TEST_CASE("a restored sequence can be exported before it has caught up") {
    for (const char* shape : {"mini", "mini12"}) {
      const auto model = test::load_named(shape, {});
      test::prompt_maker maker(*model, 17);
      const prompt_case prompt = maker.text(450);
      const cached_turn cache = first_turn(*model, prompt, 1);
      for (const uint32_t hit : {128u, 256u, 384u})
        for (const restore_mode mode : {restore_mode::bounded, restore_mode::exact}) {
          const auto blocks = cache.blocks(hit);
          auto warm = model->restore({blocks, prompt.tokens, hit}, mode);
          REQUIRE(warm);
          for (uint32_t i = 0; i < 8; ++i) {
            const auto parts = model->export_state(**warm);
            const auto done = std::span(prompt.tokens).first((*warm)->computed_tokens());
            auto moved = model->import_state(parts, done);
            REQUIRE(moved);
            test::feed(*model, prompt, **moved);
            test::feed_until(*model, prompt, **warm, (*warm)->computed_tokens() + 1);
          }
        }
    }
  }

  TEST_CASE("a bounded restore keeps the stored entries and has other bits behind them") {
    for (const char* shape : {"mini", "mini12"}) {
      const auto model = test::load_named(shape, {.level = numeric_level::L0});
      test::prompt_maker maker(*model, 12);
      const prompt_case prompt = maker.text(300);
      const cached_turn cache = first_turn(*model, prompt, 1);
      const auto cold = model->make_sequence();
      const outcome expected = finish(*model, prompt, *cold, maker.random());
      const auto blocks = cache.blocks(256);
      auto warm = model->restore({blocks, prompt.tokens, 256}, restore_mode::bounded);
      REQUIRE(warm);
      CHECK((*warm)->computed_tokens() == 240);
      const outcome got = finish(*model, prompt, **warm, maker.random());
      for (uint32_t block : {0u, 1u}) CHECK(got.state[block].bytes == expected.state[block].bytes);
      CHECK(got.state[2].kind == part_kind::block_tail);
      CHECK(got.state[2].bytes != expected.state[2].bytes);
    }
  }

  TEST_CASE("a bounded restore of the bundled model stays close to the cold run") {
    // All samples as one conversation: real text, longer than the exact replay's depth.
    std::vector<int32_t> talk;
    for (const test::sample& s : test::read_samples()) {
      talk.insert(talk.end(), s.prompt.begin(), s.prompt.end());
      talk.insert(talk.end(), s.output.begin(), s.output.end());
    }
    test::bare_model bare(test::checkpoint_folder{test::source_path("examples/models/tiny-v41")},
                          numeric_level::L1);
    const auto model = test::load_named("tiny", {.kept_rows = 0});
    const size_t words = bare.config.vocabulary;
    v41_sequence cold = bare.fresh();
    const auto want = bare.run(cold, talk);
    const auto all = export_sequence(cold, bare.config, model->info().layout);
    distances at_once, later;
    for (uint32_t hit = 256; hit + 2 * block_tokens < talk.size(); hit += 3 * block_tokens) {
      std::vector<state_part> blocks;
      for (const state_part& part : all)
        if (part.kind == part_kind::block && part.index < hit / block_tokens)
          blocks.push_back(part);
      const auto prompt = std::span<const int32_t>(talk).first(hit + 2 * block_tokens);
      auto warm = model->restore({blocks, prompt, hit}, restore_mode::bounded);
      REQUIRE(warm);
      const uint32_t start = (*warm)->computed_tokens();
      const auto got = bare.run(static_cast<v41_sequence&>(**warm), prompt.subspan(start));
      for (uint32_t p = hit; p < prompt.size(); ++p)
        (p < hit + block_tokens ? at_once : later)
            .add(std::span(got).subspan((p - start) * words, words),
                 std::span(want).subspan(p * words, words));
    }
    MESSAGE("bounded restore, first 128 positions behind the hit: ", at_once.shown());
    MESSAGE("bounded restore, the next 128 positions: ", later.shown());
    CHECK(at_once.same > at_once.rows * 8 / 10);
    CHECK(later.same > later.rows * 9 / 10);
  }

  TEST_CASE("an image token that is text stays text behind a restore") {
    const auto model = test::load_named("mini", {});
    test::prompt_maker maker(*model, 13);
    prompt_case prompt = maker.text(300);
    for (const uint32_t p : {127u, 166u, 254u, 255u})
      prompt.tokens[p] = model->config().image_token;
    const auto cold = model->make_sequence();
    test::feed_until(*model, prompt, *cold, 256);
    const auto parts = model->export_state(*cold);
    const outcome expected = finish(*model, prompt, *cold, maker.random());
    std::vector<state_part> blocks(parts.begin(), parts.begin() + 2);
    for (const uint32_t hit : {128u, 256u}) {
      CAPTURE(hit);
      auto warm = model->restore({std::span(blocks).first(hit / 128), prompt.tokens, hit},
                                 restore_mode::exact);
      REQUIRE(warm);
      const outcome got = finish(*model, prompt, **warm, maker.random());
      CHECK(got.tokens == expected.tokens);
      CHECK(test::difference(got.state, expected.state) == "");
    }
  }

  TEST_CASE("hits that cannot be used are refused") {
    const auto model = test::load_named("mini", {});  // keeps 28 rows
    test::prompt_maker maker(*model, 14);
    const prompt_case prompt = maker.text(300);
    const cached_turn cache = first_turn(*model, prompt, 1);
    const auto restored = [&](uint32_t hit, uint32_t size, restore_mode mode) {
      const auto parts = mode == restore_mode::ring ? cache.at_block[std::min(hit, 256u) / 128]
                                                    : cache.blocks(hit);
      const auto tokens = std::span(prompt.tokens).first(size);
      return model->restore({parts, tokens, hit}, mode).has_value();
    };
    for (const restore_mode mode :
         {restore_mode::ring, restore_mode::bounded, restore_mode::exact}) {
      CAPTURE(static_cast<int>(mode));
      CHECK(restored(256, 300, mode));
      CHECK_FALSE(restored(64, 300, mode));   // no whole block
      CHECK_FALSE(restored(256, 256, mode));  // nothing left to compute
      CHECK_FALSE(restored(256, 200, mode));
      CHECK(restored(0, 300, mode));
    }
    // Rings that were kept end before the rows that decoder replay computes.
    CHECK(restored(256, 284, restore_mode::ring));
    CHECK_FALSE(restored(256, 283, restore_mode::ring));
    CHECK(restored(128, 283, restore_mode::ring));
    CHECK(restored(256, 283, restore_mode::exact));
    CHECK(usable_hit({28}, {256, 284}, restore_mode::ring) == 256);
    CHECK(usable_hit({28}, {256, 283}, restore_mode::ring) == 128);
    CHECK(usable_hit({28}, {256, 283}, restore_mode::exact) == 256);
    CHECK(usable_hit({0}, {256, 257}, restore_mode::ring) == 256);
  }

  TEST_CASE("damaged, missing and doubled blocks are refused") {
    const auto model = test::load_named("mini12", {});
    test::prompt_maker maker(*model, 15);
    const prompt_case prompt = maker.text(400);
    const cached_turn cache = first_turn(*model, prompt, 1);
    const auto good = cache.blocks(384);
    REQUIRE(good.size() == 3);
    const auto refused = [&](const std::vector<state_part>& parts, uint32_t hit = 384) {
      bool all = true;
      for (const restore_mode mode : {restore_mode::bounded, restore_mode::exact})
        all = all && !model->restore({parts, prompt.tokens, hit}, mode).has_value();
      return all;
    };
    CHECK_FALSE(refused(good));
    CHECK(refused(good, 256));  // one too many
    for (size_t i = 0; i < good.size(); ++i) {
      CAPTURE(i);
      auto changed = good;
      changed[i].bytes.pop_back();
      CHECK(refused(changed));
      changed[i].bytes.resize(good[i].bytes.size() + 1);
      CHECK(refused(changed));
      changed = good;
      changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(i));
      CHECK(refused(changed));
      changed = good;
      changed.push_back(good[i]);
      CHECK(refused(changed));
      changed = good;
      changed[i].kind = part_kind::block_tail;
      CHECK(refused(changed));
    }
    CHECK(refused(cache.at_end));
    std::vector<int32_t> outside = prompt.tokens;
    outside[399] = 160;
    CHECK_FALSE(model->restore({good, outside, 384}, restore_mode::exact).has_value());
  }

  TEST_CASE("numbers that are none in a restored block fail the item") {
    const auto model = test::load_named("mini", {});
    test::prompt_maker maker(*model, 16);
    const prompt_case prompt = maker.text(300);
    auto blocks = first_turn(*model, prompt, 1).blocks(256);
    for (state_part& part : blocks) std::ranges::fill(part.bytes, std::byte{0xFF});
    auto warm = model->restore({blocks, prompt.tokens, 256}, restore_mode::exact);
    REQUIRE(warm);
    step_item item = test::chunk_of(prompt, **warm, 300 - (*warm)->computed_tokens());
    model->step({&item, 1});
    CHECK(item.failed);
    CHECK(item.sampled == -1);
  }
}
