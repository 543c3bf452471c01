#include "runtime/model/toy_model.hpp"

#include "tests/support/rng.hpp"
#include "tests/support/step_items.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::model;

namespace {

std::vector<int32_t> random_tokens(test::rng& random, uint32_t count, uint32_t vocabulary) {
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random.below(vocabulary));
  return tokens;
}

void feed(step_model& model, sequence& target, std::span<const int32_t> tokens) {
  step_item item = test::sampling(target, tokens, {});
  model.step({&item, 1});
  REQUIRE_FALSE(item.failed);
}

// Greedy continuation by "continue" steps.
std::vector<int32_t> continued(step_model& model, sequence& target, uint32_t count) {
  std::vector<int32_t> out;
  for (uint32_t i = 0; i < count; ++i) {
    out.push_back(target.last_sampled());
    feed(model, target, {});
  }
  return out;
}

std::vector<int32_t> expected(const toy_options& options,
                              std::vector<int32_t> prefix,
                              uint32_t count) {
  std::vector<int32_t> out;
  for (uint32_t i = 0; i < count; ++i) {
    out.push_back(toy_next_token(options, prefix));
    prefix.push_back(out.back());
  }
  return out;
}

}  // namespace

TEST_SUITE("runtime/model/toy_model") {
  TEST_CASE("generation follows the oracle however the prompt is cut") {
    const toy_options options;
    const auto model = *make_toy_model(options);
    test::rng random{3};
    const auto prompt = random_tokens(random, 300, options.vocabulary);
    for (const uint32_t cut : {0u, 1u, 127u, 128u, 129u, 299u}) {
      CAPTURE(cut);
      const auto target = model->make_sequence();
      if (cut != 0) feed(*model, *target, std::span(prompt).first(cut));
      feed(*model, *target, std::span(prompt).subspan(cut));
      CHECK(target->computed_tokens() == 300);
      CHECK(continued(*model, *target, 20) == expected(options, prompt, 20));
    }
  }

  TEST_CASE("an exported state continues elsewhere as if it had stayed") {
    const toy_options options;
    const auto model = *make_toy_model(options);
    const auto other = *make_toy_model(options);
    CHECK(model->info().layout == other->info().layout);
    test::rng random{4};
    for (const uint32_t length : {0u, 1u, 16u, 127u, 128u, 129u, 400u}) {
      CAPTURE(length);
      const auto prompt = random_tokens(random, length, options.vocabulary);
      const auto target = model->make_sequence();
      if (length != 0) feed(*model, *target, prompt);
      const auto parts = model->export_state(*target);
      auto moved = other->import_state(parts, prompt);
      REQUIRE(moved);
      CHECK((*moved)->computed_tokens() == length);
      const std::vector<int32_t> more{5, 6};
      feed(*other, **moved, more);
      auto whole = prompt;
      whole.insert(whole.end(), more.begin(), more.end());
      CHECK(continued(*other, **moved, 5) == expected(options, whole, 5));
    }
  }

  TEST_CASE("a flipped byte in any part is refused, or makes the tokens wrong when absorbed") {
    toy_options options;
    const auto strict = *make_toy_model(options);
    options.import = toy_import::absorb;
    const auto absorbing = *make_toy_model(options);
    test::rng random{5};
    const auto prompt = random_tokens(random, 300, options.vocabulary);
    const auto target = strict->make_sequence();
    feed(*strict, *target, prompt);
    const auto parts = strict->export_state(*target);
    REQUIRE(parts.size() == 5);  // two blocks, tail, ring, state
    for (size_t i = 0; i < parts.size(); ++i) {
      auto bad = parts;
      bad[i].bytes[random.below(static_cast<uint32_t>(bad[i].bytes.size()))] ^= std::byte{1};
      const auto refused = strict->import_state(bad, prompt);
      REQUIRE_FALSE(refused);
      CHECK(refused.error().code == error_code::corrupt);
      const auto taken = absorbing->import_state(bad, prompt);
      REQUIRE(taken);
      feed(*absorbing, **taken, std::vector<int32_t>{7});
      auto whole = prompt;
      whole.push_back(7);
      CHECK(continued(*absorbing, **taken, 8) != expected(options, whole, 8));
    }
  }

  TEST_CASE("parts that do not add up are refused") {
    const auto model = *make_toy_model({});
    const std::vector<int32_t> prompt(200, 9);
    const auto target = model->make_sequence();
    feed(*model, *target, prompt);
    auto parts = model->export_state(*target);
    CHECK_FALSE(model->import_state(std::span(parts).first(parts.size() - 1), prompt));
    CHECK_FALSE(model->import_state(parts, std::span(prompt).first(199)));
    parts[0].index = 1;
    CHECK_FALSE(model->import_state(parts, prompt));
    parts[0].index = 0;
    parts[0].bytes.pop_back();
    CHECK_FALSE(model->import_state(parts, prompt));
  }

  TEST_CASE("stop tokens come at the configured rate and never otherwise") {
    toy_options options;
    uint32_t stops = 0;
    std::vector<int32_t> prefix;
    for (int32_t i = 0; i < 2000; ++i) {
      prefix.assign({i % 64, i / 64});
      CHECK(toy_next_token(options, prefix) != options.stop_token);
      auto stopping = options;
      stopping.stop_per_1000 = 100;
      stops += toy_next_token(stopping, prefix) == options.stop_token;
    }
    CHECK(stops > 140);
    CHECK(stops < 260);
  }

  TEST_CASE("the seed matters only above temperature zero") {
    const toy_options options;
    sampling_params one, two;
    one.seed = 1;
    two.seed = 2;
    uint32_t differ = 0;
    for (int32_t i = 0; i < 50; ++i) {
      const std::vector<int32_t> prefix{i};
      one.temperature = two.temperature = 0;
      CHECK(toy_next_token(options, prefix, one) == toy_next_token(options, prefix, two));
      one.temperature = two.temperature = 1;
      differ += toy_next_token(options, prefix, one) != toy_next_token(options, prefix, two);
    }
    CHECK(differ > 40);
  }

  TEST_CASE("an item over the context limit or outside the vocabulary fails and changes nothing") {
    toy_options options;
    options.context_limit = 10;
    const auto model = *make_toy_model(options);
    const auto target = model->make_sequence();
    const auto fails = [&](std::span<const int32_t> tokens) {
      step_item item = test::sampling(*target, tokens, {});
      model->step({&item, 1});
      return item.failed;
    };
    CHECK(fails({}));  // nothing sampled yet
    feed(*model, *target, std::vector<int32_t>(9, 3));
    CHECK(fails(std::vector<int32_t>{1, 2}));
    CHECK(fails(std::vector<int32_t>{64}));
    CHECK(fails(std::vector<int32_t>{-1}));
    CHECK(target->computed_tokens() == 9);
    feed(*model, *target, std::vector<int32_t>{2});
    CHECK(fails({}));
  }

  TEST_CASE("options out of range are refused") {
    CHECK_FALSE(make_toy_model({.vocabulary = 3}));
    CHECK_FALSE(make_toy_model({.stop_token = 64}));
    CHECK_FALSE(make_toy_model({.stop_per_1000 = 1001}));
    CHECK_FALSE(make_toy_model({.context_limit = 0}));
    CHECK_FALSE(make_toy_model({.block_bytes = 15}));
  }

  TEST_CASE("log probabilities follow the oracle, belong to the prefix and are distinct") {
    const toy_options options;
    const auto model = *make_toy_model(options);
    test::rng random{11};
    std::vector<int32_t> prefix = random_tokens(random, 40, options.vocabulary);
    const auto target = model->make_sequence();
    for (uint32_t i = 0; i < 30; ++i) {
      const sampling_params params{.temperature = 1, .seed = i, .logprobs = i % 22};
      step_item item = test::sampling(
          *target, i == 0 ? std::span<const int32_t>(prefix) : std::span<const int32_t>{}, params);
      model->step({&item, 1});
      REQUIRE_FALSE(item.failed);
      REQUIRE(item.logprobs.size() == (params.logprobs == 0 ? 0 : 1));
      if (params.logprobs != 0) {
        const token_logprobs& row = item.logprobs[0];
        CHECK(row == toy_logprobs(options, prefix, item.sampled, params.logprobs - 1));
        CHECK(row.best.size() == params.logprobs - 1);
        for (size_t k = 0; k < row.best.size(); ++k) {
          CHECK((k == 0 || row.best[k].logprob < row.best[k - 1].logprob));
          if (row.best[k].id == item.sampled) CHECK(row.best[k].logprob == row.chosen);
        }
      }
      prefix.push_back(item.sampled);
    }
    CHECK(toy_logprobs(options, prefix, 5, 2) !=
          toy_logprobs(options, std::span(prefix).first(9), 5, 2));
  }
}
