#include "kernels/api/cpu_device.hpp"
#include "runtime/model/sampler.hpp"
#include "tests/unit/runtime/model/sequence_runs.hpp"
#include "tests/unit/runtime/model/tiny_samples.hpp"

using namespace deepinfer;
using namespace deepinfer::model;
using test::prompt_case;

namespace {

// A sequence that decodes with drafts, and what it was told of its tokens.
struct told {
  prompt_case prompt;
  std::unique_ptr<sequence> state;
  std::vector<int32_t> tokens;
  std::vector<token_logprobs> rows;
};

constexpr size_t outputs = 24;

std::vector<told> make_told(const v41_model& model, std::span<const prompt_case> prompts) {
  std::vector<told> all;
  for (const prompt_case& prompt : prompts) all.push_back({prompt, model.make_sequence(), {}, {}});
  return all;
}

// All sequences in the same steps until each has its outputs; returns accepted drafts.
size_t run_together(v41_model& model, std::vector<told>& all) {
  size_t accepted = 0;
  for (bool more = true; more;) {
    std::vector<step_item> items;
    for (const told& t : all) {
      items.push_back(test::sampling(*t.state, {}, t.prompt.sampling));
      if (t.tokens.empty()) items.back().tokens = t.prompt.tokens;
      items.back().draft_tokens = 5;
    }
    model.step(items);
    more = false;
    for (size_t i = 0; i < items.size(); ++i) {
      const step_item& item = items[i];
      told& t = all[i];
      REQUIRE_FALSE(item.failed);
      const bool asked = item.sampling.logprobs != 0;
      REQUIRE(item.logprobs.size() == (asked ? item.accepted.size() + 1 : 0));
      t.tokens.insert(t.tokens.end(), item.accepted.begin(), item.accepted.end());
      t.tokens.push_back(item.sampled);
      t.rows.insert(t.rows.end(), item.logprobs.begin(), item.logprobs.end());
      accepted += item.accepted.size();
      more = more || t.tokens.size() < outputs;
    }
  }
  return accepted;
}

// What one forward over prompt and output says of every output token.
std::vector<token_logprobs> from_forward(v41_model& model, const told& t) {
  std::vector<int32_t> all = t.prompt.tokens;
  all.insert(all.end(), t.tokens.begin(), t.tokens.end());
  const auto forward = model.forward(all, {});
  REQUIRE(forward);
  const size_t vocabulary = model.info().vocabulary;
  std::vector<token_logprobs> rows;
  for (size_t i = 0; i < t.tokens.size(); ++i) {
    const size_t row = t.prompt.tokens.size() + i - 1;
    rows.push_back(*log_probabilities({forward->logits.data() + row * vocabulary, vocabulary},
                                      t.tokens[i], t.prompt.sampling.logprobs - 1));
  }
  return rows;
}

std::vector<prompt_case> bundled_prompts() {
  std::vector<prompt_case> prompts;
  for (const test::sample& s : test::read_samples()) {
    if (s.prompt.size() > 60 || prompts.size() == 5) continue;
    prompt_case p;
    p.tokens = s.prompt;
    const auto n = static_cast<uint32_t>(prompts.size());
    if (n % 2 == 1) p.sampling = {.temperature = 0.7f, .top_p = 0.9f, .seed = n};
    p.sampling.logprobs = std::array{1u, 21u, 6u, 2u, 0u}[n];
    prompts.push_back(std::move(p));
  }
  return prompts;
}

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE(
      "every emitted token, accepted drafts included, has the log probabilities of its logits") {
    const auto prompts = bundled_prompts();
    for (const numeric_level level : test::all_levels) {
      const auto model =
          test::load_named("tiny", {.level = level, .kept_rows = 0, .draft_tokens = 5});
      auto all = make_told(*model, prompts);
      CHECK(run_together(*model, all) > 20);
      for (const told& t : all) {
        if (t.prompt.sampling.logprobs == 0) continue;
        CHECK(t.rows == from_forward(*model, t));
        for (const token_logprobs& row : t.rows) {
          CHECK(row.chosen <= 0);
          CHECK(row.best.size() == t.prompt.sampling.logprobs - 1);
        }
      }
    }
  }

  TEST_CASE("log probabilities have the same bits on every instruction set, alone and in a batch") {
    const auto prompts = bundled_prompts();
    const auto model = test::load_named("tiny", {.draft_tokens = 5});
    auto expected = make_told(*model, prompts);
    run_together(*model, expected);
    for (int isa = 0; isa <= static_cast<int>(kernels::best_cpu_isa()); ++isa) {
      const auto other = test::load_named(
          "tiny", {.draft_tokens = 5, .threads = 2, .isa = static_cast<kernels::cpu_isa>(isa)});
      for (size_t i = 0; i < prompts.size(); ++i) {
        auto alone = make_told(*other, std::span(prompts).subspan(i, 1));
        run_together(*other, alone);
        const size_t count = std::min(alone[0].rows.size(), expected[i].rows.size());
        CHECK(std::equal(alone[0].rows.begin(), alone[0].rows.begin() + static_cast<long>(count),
                         expected[i].rows.begin()));
      }
    }
  }

  TEST_CASE("asking for log probabilities changes no token and no state") {
    auto prompts = bundled_prompts();
    const auto model = test::load_named("tiny", {.draft_tokens = 5});
    auto asked = make_told(*model, prompts);
    run_together(*model, asked);
    for (prompt_case& p : prompts) p.sampling.logprobs = 0;
    auto plain = make_told(*model, prompts);
    run_together(*model, plain);
    for (size_t i = 0; i < prompts.size(); ++i) {
      CHECK(asked[i].tokens == plain[i].tokens);
      CHECK(test::difference(*model, *asked[i].state, *model, *plain[i].state) == "");
    }
  }

  TEST_CASE("more alternatives than the limit fail the item and leave the sequence alone") {
    const auto model = test::load_named("mini", {});
    test::prompt_maker maker(*model, 3);
    const prompt_case prompt = maker.text(9);
    const auto target = model->make_sequence();
    sampling_params params{.logprobs = 22};
    step_item item = test::sampling(*target, prompt.tokens, params);
    model->step({&item, 1});
    CHECK(item.failed);
    CHECK(target->computed_tokens() == 0);
    params.logprobs = 21;
    item = test::sampling(*target, prompt.tokens, params);
    model->step({&item, 1});
    CHECK_FALSE(item.failed);
    CHECK(item.logprobs.at(0).best.size() == 20);
  }
}
