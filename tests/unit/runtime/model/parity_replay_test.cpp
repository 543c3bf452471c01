#include "runtime/model/v41_model.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/step_items.hpp"
#include "tests/unit/runtime/model/bare_model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

// Decoder replay and the restore after a prefix hit against the reference.

using namespace deepinfer;
using namespace deepinfer::model;
using test::bare_model;
using test::golden_tensors;
using test::relative_error;

namespace {

struct level_case {
  numeric_level level;
  const char* name;
  double close;  ///< bound of end-to-end comparisons
};
constexpr level_case levels[] = {{numeric_level::L0, "L0", 1e-5}, {numeric_level::L1, "L1", 4e-3}};
constexpr const char* shapes[] = {"mini", "mini12"};

struct variant_case {
  replay_variant variant;
  std::string name;
};
const variant_case variants[] = {{replay_variant::late, "replay.late."},
                                 {replay_variant::ced, "replay.ced."}};

// The window's rows of one layer, oldest first.
std::vector<float> ring_rows(const bare_model& model, const v41_sequence& target, uint32_t layer) {
  const v41_config& c = model.config;
  std::vector<float> out;
  for (uint32_t p = target.computed - c.window; p < target.computed; ++p) {
    const auto row =
        model.unpacked(target.rings[layer].at(p), c.head_width, kernels::row_format::f32);
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

// What a cache that holds global rows alone gives back: those of the first `hit` tokens.
v41_sequence with_global_rows(const bare_model& model, const v41_sequence& whole, uint32_t hit) {
  v41_sequence out = model.fresh();
  for (size_t s = 0; s < out.sources.size(); ++s)
    for (uint32_t j = 0; j < hit / out.sources[s].ratio; ++j)
      for (auto [to, from] : {std::pair(&out.sources[s].entries, &whole.sources[s].entries),
                              std::pair(&out.sources[s].index_keys, &whole.sources[s].index_keys)})
        std::memcpy(to->add(), from->row(j), to->row_bytes());
  return out;
}

// Logits of the prompt's tokens behind `hit` after a bounded restore.
std::vector<float> resumed(bare_model& model, std::span<const int32_t> prompt, uint32_t hit) {
  v41_sequence whole = model.fresh();
  model.run(whole, prompt);
  const uint32_t start = hit - model.config.window;
  v41_sequence target = with_global_rows(model, whole, hit);
  v41_sequence behind = model.fresh();
  model.run(behind, prompt.first(start));
  target.look_back = behind.look_back;
  target.computed = start;
  auto logits = model.run(target, prompt.subspan(start));
  for (size_t s = 0; s < target.sources.size(); ++s)
    for (uint32_t j = 0; j < hit / target.sources[s].ratio; ++j)
      REQUIRE(std::memcmp(target.sources[s].entries.row(j), whole.sources[s].entries.row(j),
                          target.sources[s].entries.row_bytes()) == 0);
  logits.erase(logits.begin(), logits.begin() + (hit - start) * model.config.vocabulary);
  return logits;
}

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("decoder replay gives the reference's rows, taps and continuation") {
    for (const std::string shape : shapes)
      for (const level_case& at_level : levels)
        for (const variant_case& variant : variants) {
          CAPTURE(shape);
          CAPTURE(at_level.name);
          CAPTURE(variant.name);
          const golden_tensors want(shape + "_" + at_level.name);
          bare_model model(shape, at_level.level, variant.variant);
          const auto prompt = want.ints("prompt");
          const auto tail = static_cast<uint32_t>(want.ints("replay.tail")[0]);
          const auto first = static_cast<uint32_t>(prompt.size()) - tail;
          v41_sequence target = model.fresh();
          const auto logits = model.run(target, prompt, first);
          CHECK(relative_error(logits, want.floats(variant.name + "logits")) < at_level.close);
          CHECK(relative_error(model.taps(), want.floats(variant.name + "taps")) < at_level.close);
          for (uint32_t layer = 0; layer < model.config.layers; ++layer) {
            const std::string ring = variant.name + "ring" + std::to_string(layer);
            if (!want.has(ring)) continue;
            CAPTURE(ring);
            CHECK(relative_error(ring_rows(model, target, layer), want.floats(ring)) <
                  at_level.close);
          }
          const auto then = model.run(target, want.ints("replay.following"));
          CHECK(relative_error(then, want.floats(variant.name + "then")) < at_level.close);
        }
  }

  TEST_CASE("decoder replay cut into chunks has the same bits") {
    for (const std::string shape : shapes)
      for (const variant_case& variant : variants) {
        bare_model model(shape, numeric_level::L1, variant.variant);
        const auto prompt = test::random_tokens(4, 70, 140);
        const std::vector<int32_t> following = {1, 2, 3};
        v41_sequence whole = model.fresh();
        model.run(whole, prompt, 46);
        const auto want = model.run(whole, following);
        for (const uint32_t chunk : {1u, 7u, 24u, 45u, 69u}) {
          CAPTURE(chunk);
          v41_sequence cut = model.fresh();
          for (uint32_t first = 0; first < prompt.size(); first += chunk)
            model.run(
                cut,
                std::span(prompt).subspan(first, std::min<size_t>(chunk, prompt.size() - first)),
                46);
          CHECK(model.run(cut, following) == want);
        }
      }
  }

  TEST_CASE("a bounded restore gives the reference's logits and keeps the stored rows") {
    for (const std::string shape : shapes)
      for (const level_case& at_level : levels) {
        const golden_tensors want(shape + "_" + at_level.name);
        bare_model model(shape, at_level.level);
        for (const uint32_t hit : {48u, 128u, 384u}) {
          const std::string name = "resume" + std::to_string(hit) + ".";
          if (!want.has(name + "logits")) continue;
          CAPTURE(shape);
          CAPTURE(at_level.name);
          CAPTURE(hit);
          const auto got = resumed(model, want.ints(name + "prompt"), hit);
          CHECK(relative_error(got, want.floats(name + "logits")) < at_level.close);
        }
      }
  }

  TEST_CASE("a model that restores from blocks chooses the reference's next token") {
    for (const std::string shape : shapes)
      for (const level_case& at_level : levels)
        for (const uint32_t hit : {128u, 384u}) {
          const golden_tensors want(shape + "_" + at_level.name);
          const std::string name = "resume" + std::to_string(hit) + ".";
          if (!want.has(name + "logits")) continue;
          CAPTURE(shape);
          CAPTURE(at_level.name);
          const auto model = test::load_mini(shape, {.level = at_level.level});
          const auto prompt = want.ints(name + "prompt");
          const auto whole = model->make_sequence();
          step_item item = test::sampling(*whole, std::span(prompt).first(hit), {});
          model->step({&item, 1});
          auto parts = model->export_state(*whole);
          std::erase_if(parts, [](const state_part& p) { return p.kind != part_kind::block; });
          const auto target = model->restore({parts, prompt, hit}, restore_mode::bounded);
          REQUIRE(target);
          REQUIRE((*target)->computed_tokens() == hit - model->config().window);
          item =
              test::sampling(**target, std::span(prompt).subspan((*target)->computed_tokens()), {});
          model->step({&item, 1});
          REQUIRE_FALSE(item.failed);
          const auto logits = want.floats(name + "logits");
          const auto last = logits.end() - model->config().vocabulary;
          CHECK(item.sampled == std::max_element(last, logits.end()) - last);
        }
  }

  TEST_CASE("rows and blocks have the reference's sizes") {
    for (const std::string shape : shapes) {
      const golden_tensors want(shape + "_L1");
      bare_model model(shape, numeric_level::L1);
      const v41_config& c = model.config;
      const auto size = [&](const char* name) {
        return static_cast<uint64_t>(want.wide(std::string("sizes.") + name)[0]);
      };
      const v41_sequence fresh = model.fresh();
      CHECK(fresh.sources[0].entries.row_bytes() == size("compressed_row"));
      CHECK(fresh.sources[0].index_keys.row_bytes() == size("index_row"));
      CHECK(fresh.rings[0].row_bytes() == size("window_row"));
      CHECK(fresh.rings[0].slots() * fresh.rings[0].row_bytes() == size("swa_ring_layer"));
      CHECK(fresh.draft_rings.size() * c.window * fresh.draft_rings[0].row_bytes() ==
            size("dspark_ring"));
      // where a ratio does not divide 128, the reference counts whole groups of one block
      CHECK(block_bytes(c, numeric_level::L1, 0) == size("block_bytes"));
    }
  }

  TEST_CASE("the released configuration has the published sizes") {
    const auto parsed =
        parse_v41_config(test::read_source("tests/golden/model/released_config.json"));
    REQUIRE(parsed);
    const v41_config& c = *parsed;
    for (const numeric_level level : {numeric_level::L1, numeric_level::L2}) {
      for (const uint32_t block : {0u, 1u, 8191u}) CHECK(block_bytes(c, level, block) == 113'920);
      CHECK(state_bytes_per_token(c, level) == 890);
    }
    const v41_sequence fresh(c, numeric_level::L1);
    CHECK(fresh.sources[0].entries.row_bytes() == 288);
    CHECK(fresh.sources[0].index_keys.row_bytes() == 68);
    CHECK(fresh.rings[0].row_bytes() == 528);
    CHECK(fresh.rings[0].slots() == 134);
    const auto encoder = std::span(fresh.rings).first(c.decoder_start());
    CHECK(encoder.size() * 134 * 528 == 1'415'040);
  }
}
