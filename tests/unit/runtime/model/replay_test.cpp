#include "tests/unit/runtime/model/sequence_runs.hpp"

using namespace deepinfer;
using namespace deepinfer::model;
using test::prompt_case;

namespace {

constexpr replay_variant both_variants[] = {replay_variant::late, replay_variant::ced};

size_t ring_row_bytes(const v41_model& model, numeric_level level) {
  return kernels::packed_row_bytes(formats_of(level).window, model.config().head_width);
}

std::vector<state_part> blocks_of(std::span<const state_part> parts) {
  std::vector<state_part> out;
  for (const state_part& part : parts)
    if (part.kind == part_kind::block || part.kind == part_kind::block_tail) out.push_back(part);
  return out;
}

// First position whose window key is that of a run without replay. The keys of the decoder's first
// layer come of the encoder's output, which no replay touches; every layer whose window is cut at
// the first kept row then costs a window.
uint32_t exact_from(const v41_config& c,
                    const v41_options& options,
                    uint32_t layer,
                    uint32_t kept_from) {
  if (layer <= c.decoder_start()) return 0;
  const uint32_t cut = layer - c.decoder_start() - (options.replay == replay_variant::late ? 1 : 0);
  return kept_from + cut * (c.window - 1);
}

// The rings of the layers, each against those of the same prompt without replay.
void check_rings(const v41_model& model,
                 const v41_options& options,
                 std::span<const state_part> replayed,
                 std::span<const state_part> plain,
                 uint32_t prompt) {
  const v41_config& c = model.config();
  const size_t row = ring_row_bytes(model, options.level);
  const auto got = test::rings_of(replayed, 0, prompt, row);
  const auto want = test::rings_of(plain, 0, prompt, row);
  REQUIRE(got.size() == c.layers);
  REQUIRE(want.size() == c.layers);
  const uint32_t kept_from = prompt - *options.kept_rows;
  for (uint32_t layer = 0; layer < c.layers; ++layer) {
    CAPTURE(layer);
    const bool whole = layer < c.decoder_start() ||
                       (layer == c.decoder_start() && options.replay == replay_variant::late);
    const uint32_t first = std::max(whole ? 0 : kept_from, prompt - c.window);
    CHECK(got[layer].first == first);
    const uint32_t exact = std::clamp(exact_from(c, options, layer, kept_from), first, prompt);
    const auto rows = std::span(got[layer].rows);
    const auto others = std::span(want[layer].rows).last(rows.size());
    const size_t before = (exact - first) * row;
    CHECK(std::ranges::equal(rows.subspan(before), others.subspan(before)));
    CHECK(std::ranges::equal(rows.first(before), others.first(before)) == (before == 0));
  }
}

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("decoder replay leaves entries, index keys and encoder windows as they are") {
    for (const char* shape : {"mini", "mini12"})
      for (const numeric_level level : test::all_levels) {
        const auto plain = test::load_named(shape, {.level = level, .kept_rows = 0});
        test::prompt_maker maker(*plain, 1);
        prompt_case prompt = maker.text(190);
        maker.add_image(prompt, 40, 30);
        const auto whole = plain->make_sequence();
        test::feed(*plain, prompt, *whole);
        const auto want = test::state_of(*plain, *whole);
        for (const replay_variant variant : both_variants)
          for (const uint32_t kept : {16u, 19u, 28u, 100u}) {
            CAPTURE(shape);
            CAPTURE(kept);
            const v41_options options{.level = level, .kept_rows = kept, .replay = variant};
            const auto model = test::load_named(shape, options);
            const auto target = model->make_sequence();
            test::feed(*model, prompt, *target);
            const auto got = test::state_of(*model, *target);
            CHECK(test::difference(blocks_of(got), blocks_of(want)) == "");
            CHECK(got.back().bytes == want.back().bytes);
            check_rings(*model, options, got, want, prompt.size());
          }
      }
  }

  TEST_CASE("a prompt no longer than the kept rows is computed as without replay") {
    for (const char* shape : {"mini", "mini12"})
      for (const replay_variant variant : both_variants) {
        const auto plain = test::load_named(shape, {.kept_rows = 0});
        const auto model = test::load_named(shape, {.kept_rows = 60, .replay = variant});
        test::prompt_maker maker(*plain, 2);
        for (const uint32_t size : {1u, 16u, 59u, 60u, 90u}) {
          CAPTURE(size);
          prompt_case prompt = maker.text(size);
          prompt.sampling = {.temperature = 1, .seed = 3};
          const auto a = plain->make_sequence(), b = model->make_sequence();
          const bool same_token = test::feed(*plain, prompt, *a) == test::feed(*model, prompt, *b);
          const bool same_state = test::difference(*plain, *a, *model, *b).empty();
          CHECK(same_state == (size <= 60));
          if (size > 60) continue;
          CHECK(same_token);
          CHECK(test::continued(*plain, *a, prompt.sampling, 20) ==
                test::continued(*model, *b, prompt.sampling, 20));
        }
      }
  }

  TEST_CASE("by default a window and twelve rows are kept") {
    const auto by_default = test::load_named("mini", {});
    const auto named = test::load_named("mini", {.kept_rows = 28});
    test::prompt_maker maker(*by_default, 4);
    const prompt_case prompt = maker.text(100);
    const auto a = by_default->make_sequence(), b = named->make_sequence();
    CHECK(test::feed(*by_default, prompt, *a) == test::feed(*named, prompt, *b));
    CHECK(test::difference(*by_default, *a, *named, *b) == "");
  }

  TEST_CASE("the drafter hears of the kept rows alone") {
    const auto model = test::load_named("mini", {.kept_rows = 16, .draft_tokens = 5});
    test::prompt_maker maker(*model, 5);
    const auto target = model->make_sequence();
    test::feed(*model, maker.text(100), *target);
    const auto& rings = static_cast<const v41_sequence&>(*target).draft_rings;
    REQUIRE(rings.size() == model->config().drafter.stages);
    for (const window_ring& ring : rings) {
      CHECK(ring.at(83) == nullptr);
      for (uint32_t p = 84; p < 100; ++p) CHECK(ring.at(p) != nullptr);
    }
  }

  TEST_CASE("kept rows below the window are refused") {
    for (const uint32_t kept : {1u, 15u}) {
      const auto refused = v41_model::load(test::mini_checkpoint("mini"), {.kept_rows = kept});
      REQUIRE_FALSE(refused);
      CHECK(refused.error().code == error_code::invalid_argument);
    }
    CHECK(v41_model::load(test::mini_checkpoint("mini"), {.kept_rows = 16}).has_value());
  }

  TEST_CASE("inside a prompt nothing is sampled") {
    const auto model = test::load_named("mini", {});
    test::prompt_maker maker(*model, 6);
    const prompt_case prompt = maker.text(80);
    const auto target = model->make_sequence();
    step_item item = test::chunk_of(prompt, *target, 30);
    item.sample = true;
    model->step({&item, 1});
    CHECK(item.failed);
    CHECK(target->computed_tokens() == 0);
  }
}
