#include "runtime/model/v41_model.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/step_items.hpp"
#include "tests/unit/runtime/model/bare_model.hpp"
#include "tests/unit/runtime/model/mini_checkpoint.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

// What a prefix hit gives back, against the run without a cache.

using namespace deepinfer;
using namespace deepinfer::model;
using test::random_tokens;

namespace {

constexpr uint32_t vocabulary = 140;  // of prompts: no image token
constexpr const char* shapes[] = {"mini", "mini12"};
// Without decoder replay, and with the published margin over the window.
constexpr uint32_t kept_rows[] = {0, 28};

using sequence_ptr = std::unique_ptr<sequence>;

// Tokens chosen at temperature 1, so that any difference in the logits has a chance to show.
constexpr sampling_params warm{.temperature = 1, .seed = 7};

void feed(v41_model& model, sequence& target, std::span<const int32_t> tokens, uint32_t to_come) {
  step_item item;
  item.target = &target;
  item.tokens = tokens;
  item.tokens_to_come = to_come;
  model.step({&item, 1});
  REQUIRE_FALSE(item.failed);
}

std::vector<int32_t> finish(v41_model& model,
                            sequence& target,
                            std::span<const int32_t> rest,
                            const sampling_params& params,
                            size_t count) {
  std::vector<int32_t> out;
  step_item item = test::sampling(target, rest, params);
  while (out.size() < count) {
    model.step({&item, 1});
    REQUIRE_FALSE(item.failed);
    out.push_back(item.sampled);
    item.tokens = {};
  }
  return out;
}

// The blocks that another request left behind: the same first `hit` tokens, then others.
std::vector<state_part> stored_blocks(v41_model& model,
                                      std::span<const int32_t> prompt,
                                      uint32_t hit) {
  std::vector<int32_t> other(prompt.begin(), prompt.begin() + hit);
  const auto suffix = random_tokens(99, 50, vocabulary);
  other.insert(other.end(), suffix.begin(), suffix.end());
  const sequence_ptr target = model.make_sequence();
  feed(model, *target, other, 0);
  auto parts = model.export_state(*target);
  std::erase_if(parts, [=](const state_part& p) {
    return p.kind != part_kind::block || p.index >= hit / block_tokens;
  });
  REQUIRE(parts.size() == hit / block_tokens);
  return parts;
}

bool same_state(const v41_model& model, const sequence& a, const sequence& b) {
  const auto x = model.export_state(a), y = model.export_state(b);
  return std::ranges::equal(x, y, [](const state_part& p, const state_part& q) {
    return p.kind == q.kind && p.index == q.index && p.bytes == q.bytes;
  });
}

struct hit_case {
  uint32_t hit;
  uint32_t prompt;
};
// One token behind the hit; within decoder replay's rows; far behind it.
constexpr hit_case hits[] = {{128, 129}, {128, 150}, {256, 300}, {384, 385}, {384, 420}};

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("kept rings give the tokens and the state of the run without a cache") {
    for (const std::string shape : shapes)
      for (const uint32_t kept : kept_rows) {
        const auto model = test::load_mini(shape, {.kept_rows = kept});
        for (const hit_case& at : hits) {
          CAPTURE(shape);
          CAPTURE(kept);
          CAPTURE(at.prompt);
          const auto prompt = random_tokens(at.prompt, at.prompt, vocabulary);
          const uint32_t hit = usable_hit({kept}, {at.hit, at.prompt}, restore_mode::ring);
          if (hit == 0) continue;
          const sequence_ptr cold = model->make_sequence();
          const auto want = finish(*model, *cold, prompt, warm, 6);
          const sequence_ptr left = model->make_sequence();
          feed(*model, *left, std::span(prompt).first(hit), at.prompt - hit);
          const auto parts = model->export_state(*left);
          auto restored = model->restore({parts, prompt, hit}, restore_mode::ring);
          REQUIRE(restored);
          CHECK((*restored)->computed_tokens() == hit);
          const auto rest = std::span(prompt).subspan(hit);
          CHECK(finish(*model, **restored, rest, warm, 6) == want);
          CHECK(same_state(*model, **restored, *cold));
        }
      }
  }

  TEST_CASE("an exact restore gives the tokens of the run without a cache from blocks alone") {
    for (const std::string shape : shapes)
      for (const uint32_t kept : kept_rows) {
        const auto model = test::load_mini(shape, {.kept_rows = kept});
        for (const hit_case& at : hits) {
          CAPTURE(shape);
          CAPTURE(kept);
          CAPTURE(at.prompt);
          const auto prompt = random_tokens(at.prompt, at.prompt, vocabulary);
          const sequence_ptr cold = model->make_sequence();
          const auto want = finish(*model, *cold, prompt, warm, 30);
          const auto parts = stored_blocks(*model, prompt, at.hit);
          auto restored = model->restore({parts, prompt, at.hit}, restore_mode::exact);
          REQUIRE(restored);
          const uint32_t start = (*restored)->computed_tokens();
          CHECK(start < at.hit);
          const auto rest = std::span(prompt).subspan(start);
          CHECK(finish(*model, **restored, rest, warm, 30) == want);
          // 30 tokens further on, every row of the rings was made after the restore
          CHECK(same_state(*model, **restored, *cold));
        }
      }
  }

  TEST_CASE("a bounded restore costs one window and comes close to the run without a cache") {
    for (const std::string shape : shapes) {
      const auto model = test::load_mini(shape);
      test::bare_model bare(shape, numeric_level::L1);
      const size_t words = bare.config.vocabulary;
      double distance = 0;
      uint32_t same_choice = 0, same_first = 0;
      constexpr uint32_t prompts = 8, generated = 8;
      for (uint32_t i = 0; i < prompts; ++i) {
        const auto prompt = random_tokens(i, 300, vocabulary);
        const auto parts = stored_blocks(*model, prompt, 256);
        auto restored = model->restore({parts, prompt, 256}, restore_mode::bounded);
        REQUIRE(restored);
        REQUIRE((*restored)->computed_tokens() == 256 - bare.config.window);
        const sequence_ptr cold = model->make_sequence();
        v41_sequence whole = bare.fresh();
        const auto all = bare.run(whole, prompt);
        auto again = model->restore({parts, prompt, 256}, restore_mode::bounded);
        REQUIRE(again);
        const auto rest = std::span(prompt).subspan(256 - bare.config.window);
        const auto some = bare.run(static_cast<v41_sequence&>(**again), rest);
        distance += test::relative_error(std::span(some).last(words), std::span(all).last(words));
        const auto want = finish(*model, *cold, prompt, {}, generated);
        const auto got = finish(*model, **restored, rest, {}, generated);
        for (uint32_t k = 0; k < generated; ++k) same_choice += want[k] == got[k];
        same_first += want[0] == got[0];
      }
      MESSAGE(shape, ": after a bounded restore the last logits are ", distance / prompts,
              " of the largest away; the first greedy token agrees in ", same_first, " of ",
              prompts, " prompts, ", same_choice, " of ", prompts * generated, " tokens in all");
      CHECK(distance / prompts < 0.5);
      CHECK(same_first >= prompts / 2);
    }
  }

  TEST_CASE("a bounded restore begins no later than the group that the hit leaves open") {
    v41_config c;
    c.layers = 2;
    c.ratios = {0, 24};
    c.kv_sources = {1};
    c.window = 8;
    CHECK(restore_start(c, {}, {256, 300}, restore_mode::bounded) == 240);
    c.window = 128;
    CHECK(restore_start(c, {}, {256, 300}, restore_mode::bounded) == 128);
  }

  TEST_CASE("a restore that cannot be is refused") {
    const auto model = test::load_mini("mini", {.kept_rows = 28});
    const auto prompt = random_tokens(1, 300, vocabulary);
    auto parts = stored_blocks(*model, prompt, 256);
    for (const restore_mode mode : {restore_mode::bounded, restore_mode::exact}) {
      CHECK(model->restore({parts, prompt, 256}, mode));
      CHECK_FALSE(model->restore({parts, prompt, 255}, mode));  // no whole block
      CHECK_FALSE(model->restore({parts, prompt, 128}, mode));  // a block too many
      CHECK_FALSE(model->restore({std::span(parts).first(1), prompt, 256}, mode));
      CHECK_FALSE(model->restore({parts, std::span(prompt).first(256), 256}, mode));  // no rest
    }
    CHECK_FALSE(model->restore({parts, prompt, 256}, restore_mode::ring));  // no rings in blocks
    parts[1].bytes.pop_back();
    CHECK_FALSE(model->restore({parts, prompt, 256}, restore_mode::exact));
  }
}
