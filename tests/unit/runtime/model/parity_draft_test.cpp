#include "tests/support/golden.hpp"
#include "tests/support/step_items.hpp"
#include "tests/unit/runtime/model/bare_model.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

// Drafts, verification rows and roll-back against the reference.

using namespace deepinfer;
using namespace deepinfer::model;
using test::bare_model;
using test::golden_tensors;
using test::relative_error;

namespace {

struct level_case {
  numeric_level level;
  const char* name;
  double close;        ///< bound of end-to-end comparisons
  double draft_close;  ///< of drafts from the reference's taps
};
constexpr level_case levels[] = {{numeric_level::L0, "L0", 1e-5, 1e-5},
                                 {numeric_level::L1, "L1", 4e-3, 4e-3},
                                 {numeric_level::L2, "L2", 0, 0.06}};
constexpr const char* shapes[] = {"mini", "mini12"};

template <class T>
std::vector<T> row_of(const std::vector<T>& matrix, size_t row, size_t rows) {
  const size_t width = matrix.size() / rows;
  const auto first = matrix.begin() + static_cast<std::ptrdiff_t>(row * width);
  return {first, first + static_cast<std::ptrdiff_t>(width)};
}

// Tokens of a greedy run that verifies up to `drafts` proposals in every step.
struct speculated {
  std::vector<int32_t> tokens;
  size_t steps = 0;
};

speculated speculate(v41_model& model,
                     std::span<const int32_t> prompt,
                     size_t count,
                     uint32_t drafts) {
  const auto target = model.make_sequence();
  step_item item = test::sampling(*target, prompt, {});
  speculated out;
  while (out.tokens.size() < count) {
    model.step({&item, 1});
    REQUIRE_FALSE(item.failed);
    out.tokens.insert(out.tokens.end(), item.accepted.begin(), item.accepted.end());
    out.tokens.push_back(item.sampled);
    item.tokens = {};
    item.draft_tokens = drafts;
    ++out.steps;
  }
  out.tokens.resize(count);
  return out;
}

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("drafts behind any number of committed positions are the reference's") {
    for (const std::string shape : shapes)
      for (const level_case& at_level : levels) {
        const golden_tensors want(shape + "_" + at_level.name);
        bare_model model(shape, at_level.level);
        const auto taps = want.floats("full.taps");
        const auto points = want.ints("draft.at");
        for (size_t i = 0; i < points.size(); ++i) {
          CAPTURE(shape);
          CAPTURE(at_level.name);
          CAPTURE(points[i]);
          v41_sequence target = model.fresh();
          model.commit(target, taps, static_cast<uint32_t>(points[i]));
          const auto tokens = row_of(want.ints("draft.tokens"), i, points.size());
          const draft_proposal got = model.draft(target, tokens[0]);
          CHECK(got.tokens == std::vector<int32_t>(tokens.begin() + 1, tokens.end()));
          const auto logits = row_of(want.floats("draft.logits"), i, points.size());
          CHECK(relative_error(got.logits, logits) < at_level.draft_close);
          const auto confidence = row_of(want.floats("draft.confidence"), i, points.size());
          CHECK(relative_error(got.confidence, confidence) < at_level.draft_close);
        }
      }
  }

  TEST_CASE("drafting leaves no trace in the sequence") {
    bare_model model("mini", numeric_level::L1);
    const golden_tensors want("mini_L1");
    v41_sequence target = model.fresh();
    model.commit(target, want.floats("full.taps"), 40);
    const draft_proposal first = model.draft(target, 5), other = model.draft(target, 6);
    CHECK(first.logits != other.logits);
    CHECK(model.draft(target, 5).logits == first.logits);
  }

  TEST_CASE("a verify step and what follows each roll-back are the reference's") {
    for (const std::string shape : shapes)
      for (const level_case& at_level : std::span(levels).first(2)) {
        CAPTURE(shape);
        CAPTURE(at_level.name);
        const golden_tensors want(shape + "_" + at_level.name);
        bare_model model(shape, at_level.level);
        const auto prompt = want.ints("prompt"), block = want.ints("verify.block"),
                   following = want.ints("verify.following");
        const auto at = static_cast<uint32_t>(want.ints("verify.at")[0]);
        for (uint32_t kept = 0; kept <= block.size(); ++kept) {
          CAPTURE(kept);
          v41_sequence target = model.fresh();
          model.run(target, std::span(prompt).first(at));
          const auto verified = model.run(target, block);
          CHECK(relative_error(verified, want.floats("verify.logits")) < at_level.close);
          target.roll_back(at + kept);
          const auto after = row_of(want.floats("verify.after"), kept, block.size() + 1);
          CHECK(relative_error(model.run(target, following), after) < at_level.close);
        }
      }
  }

  TEST_CASE("rolled back in several steps, a sequence goes on with the same bits") {
    for (const std::string shape : shapes) {
      bare_model model(shape, numeric_level::L1);
      const auto prompt = test::random_tokens(3, 60, 140);
      const std::vector<int32_t> wrong = {5, 6, 7, 8, 9, 3};
      v41_sequence straight = model.fresh();
      model.run(straight, std::span(prompt).first(37));
      const auto want = model.run(straight, std::span(prompt).subspan(37));
      v41_sequence target = model.fresh();
      model.run(target, std::span(prompt).first(37));
      model.run(target, wrong);
      target.roll_back(41);
      target.roll_back(38);
      target.roll_back(37);
      CHECK(model.run(target, std::span(prompt).subspan(37)) == want);
    }
  }

  TEST_CASE("greedy tokens are the reference's however many drafts are verified") {
    for (const std::string shape : shapes)
      for (const level_case& at_level : std::span(levels).first(2)) {
        CAPTURE(shape);
        CAPTURE(at_level.name);
        const golden_tensors want(shape + "_" + at_level.name);
        const auto model = test::load_mini(shape, {.level = at_level.level, .draft_tokens = 5});
        for (const uint32_t drafts : {0u, 1u, 3u, 5u}) {
          CAPTURE(drafts);
          CHECK(speculate(*model, want.ints("prompt"), 24, drafts).tokens == want.ints("greedy"));
        }
      }
  }
}
