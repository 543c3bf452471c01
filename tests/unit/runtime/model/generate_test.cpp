#include "runtime/model/generate.hpp"

#include "runtime/model/toy_model.hpp"
#include "tests/unit/runtime/model/sequence_runs.hpp"
#include "tests/unit/runtime/model/tiny_samples.hpp"

#include <functional>

using namespace deepinfer;
using namespace deepinfer::model;

namespace {

constexpr toy_options toy{.stop_per_1000 = 30, .context_limit = 200};

bool go_on(size_t, int32_t) {
  return true;
}

// The toy with a drafter that is right as often as it is asked for, so that stops and limits fall
// anywhere among accepted drafts. Notes how much it was given at once.
class drafting_toy final : public step_model {
public:
  explicit drafting_toy(const toy_options& options) : inner_(*make_toy_model(options)) {}

  [[nodiscard]] const model_info& info() const override { return inner_->info(); }
  [[nodiscard]] std::unique_ptr<sequence> make_sequence() const override {
    return inner_->make_sequence();
  }
  void step(std::span<step_item> items) override {
    most_items = std::max(most_items, items.size());
    for (step_item& item : items) {
      most_tokens = std::max(most_tokens, item.tokens.size());
      std::vector<int32_t> accepted;
      for (uint32_t i = 0; i < item.draft_tokens; ++i) {
        inner_->step({&item, 1});
        REQUIRE_FALSE(item.failed);
        accepted.push_back(item.sampled);
      }
      inner_->step({&item, 1});
      item.accepted = std::move(accepted);
      if (fail_at != 0 && item.target->computed_tokens() >= fail_at) item.failed = true;
    }
  }
  [[nodiscard]] std::vector<state_part> export_state(const sequence& from) const override {
    return inner_->export_state(from);
  }
  [[nodiscard]] result<std::unique_ptr<sequence>> import_state(
      std::span<const state_part> parts, std::span<const int32_t> tokens) const override {
    return inner_->import_state(parts, tokens);
  }

  size_t most_items = 0, most_tokens = 0;
  uint32_t fail_at = 0;  ///< tokens from which on steps fail; 0: never

private:
  std::unique_ptr<step_model> inner_;
};

// What must come, straight from the oracle.
generated expected(const generate_prompt& prompt) {
  generated out;
  std::vector<int32_t> all(prompt.tokens.begin(), prompt.tokens.end());
  while (true) {
    const int32_t token = toy_next_token(toy, all, prompt.sampling);
    all.push_back(token);
    out.tokens.push_back(token);
    out.end =
        token == toy.stop_token && !prompt.ignore_eos ? generate_end::stop : generate_end::length;
    if (out.end == generate_end::stop || out.tokens.size() == prompt.max_tokens ||
        all.size() == toy.context_limit)
      return out;
  }
}

std::vector<std::vector<int32_t>> random_prompts(uint64_t seed, uint32_t count, uint32_t longest) {
  test::rng random{seed};
  std::vector<std::vector<int32_t>> out(count);
  for (auto& tokens : out) {
    tokens.resize(1 + random.below(longest));
    for (int32_t& token : tokens) token = static_cast<int32_t>(random.below(toy.vocabulary));
  }
  return out;
}

std::vector<generate_prompt> asked(const std::vector<std::vector<int32_t>>& tokens) {
  test::rng random{tokens.size()};
  std::vector<generate_prompt> out;
  for (const auto& t : tokens) {
    generate_prompt& prompt = out.emplace_back();
    prompt.tokens = t;
    prompt.max_tokens = 1 + random.below(80);
    prompt.ignore_eos = random.below(4) == 0;
    if (random.below(2) == 0) prompt.sampling = {.temperature = 1, .seed = random.below(9)};
  }
  return out;
}

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("every prompt of a batch yields its own tokens, with any number of drafts") {
    const auto tokens = random_prompts(1, 40, 190);
    const auto prompts = asked(tokens);
    for (const uint32_t drafts : {0u, 1u, 2u, 5u})
      for (const uint32_t in_flight : {1u, 7u, 64u}) {
        CAPTURE(drafts);
        CAPTURE(in_flight);
        drafting_toy model(toy);
        std::vector<std::vector<int32_t>> streamed(prompts.size());
        const auto out =
            generate(model, prompts,
                     {.prompts_in_flight = in_flight, .chunk_tokens = 11, .draft_tokens = drafts},
                     [&](size_t prompt, int32_t token) {
                       streamed[prompt].push_back(token);
                       return true;
                     });
        REQUIRE(out);
        REQUIRE(out->size() == prompts.size());
        for (size_t i = 0; i < prompts.size(); ++i) {
          CAPTURE(i);
          const generated want = expected(prompts[i]), &got = (*out)[i];
          CHECK(got.tokens == want.tokens);
          CHECK(got.end == want.end);
          CHECK(streamed[i] == want.tokens);
          CHECK(got.accepted <= got.drafted);
          CHECK(got.drafted <= got.steps * drafts);
          CHECK(got.tokens.size() <= 1 + got.steps + got.accepted);
        }
        CHECK(model.most_items == std::min<size_t>(in_flight, prompts.size()));
        CHECK(model.most_tokens == 11);
      }
  }

  TEST_CASE("a callback ends its own prompt, in the middle of accepted drafts too") {
    const auto tokens = random_prompts(2, 3, 20);
    auto prompts = asked(tokens);
    for (generate_prompt& p : prompts) p.ignore_eos = true, p.max_tokens = 30;
    drafting_toy model(toy);
    size_t seen = 0;
    const auto out = generate(model, prompts, {.draft_tokens = 5},
                              [&](size_t prompt, int32_t) { return prompt != 1 || ++seen < 9; });
    REQUIRE(out);
    CHECK((*out)[1].end == generate_end::cancelled);
    CHECK((*out)[1].tokens.size() == 9);
    CHECK(seen == 9);
    for (const size_t i : {0, 2}) CHECK((*out)[i].tokens == expected(prompts[i]).tokens);
  }

  TEST_CASE("a prompt whose step fails ends with what it has") {
    const std::vector<int32_t> tokens(10, 3);
    const generate_prompt prompt{.tokens = tokens, .max_tokens = 50, .ignore_eos = true};
    drafting_toy model(toy);
    model.fail_at = 25;
    const auto out = generate(model, {&prompt, 1}, {}, go_on);
    REQUIRE(out);
    CHECK(out->front().end == generate_end::failed);
    CHECK(out->front().tokens.size() == 15);
  }

  TEST_CASE("prompts and settings out of range are refused before anything is computed") {
    drafting_toy model(toy);
    const std::vector<int32_t> good{1, 2, 3}, outside{64}, full(200, 1), nearly(199, 1);
    const std::vector<float> row(64);
    const auto code = [&](const generate_prompt& prompt, const generate_options& options = {}) {
      const generate_prompt pair[] = {{.tokens = good, .max_tokens = 1}, prompt};
      const auto out = generate(model, pair, options, go_on);
      return out ? error_code::ok : out.error().code;
    };
    CHECK(code({.tokens = good}) == error_code::ok);
    CHECK(code({.tokens = nearly}) == error_code::ok);
    model.most_items = 0;
    CHECK(code({.tokens = full}) == error_code::too_large);
    CHECK(code({}) == error_code::invalid_argument);
    CHECK(code({.tokens = outside}) == error_code::invalid_argument);
    CHECK(code({.tokens = good, .max_tokens = 0}) == error_code::invalid_argument);
    CHECK(code({.tokens = good, .sampling = {.temperature = -1}}) == error_code::invalid_argument);
    const image_rows beyond[] = {{2, 2, row.data()}}, none[] = {{0, 1, nullptr}};
    const image_rows crossed[] = {{1, 1, row.data()}, {0, 1, row.data()}};
    for (const std::span<const image_rows> images :
         {std::span<const image_rows>(beyond), std::span<const image_rows>(none),
          std::span<const image_rows>(crossed)})
      CHECK(code({.tokens = good, .images = images}) == error_code::invalid_argument);
    for (const generate_options& options :
         {generate_options{.prompts_in_flight = 0}, generate_options{.prompts_in_flight = 65},
          generate_options{.chunk_tokens = 0}, generate_options{.draft_tokens = 6}})
      CHECK(code({.tokens = good}, options) == error_code::invalid_argument);
    CHECK(model.most_items == 0);
    const auto none_at_all = generate(model, {}, {}, go_on);
    REQUIRE(none_at_all);
    CHECK(none_at_all->empty());
    const generate_prompt pair[] = {{.tokens = good}, {.tokens = outside}};
    const auto refused = generate(model, pair, {}, go_on);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().detail.find("prompt 1:") == 0);
  }

  TEST_CASE("the bundled model yields the same batch with and without drafts") {
    const auto model = test::load_named("tiny", {.draft_tokens = 5});
    const auto samples = test::read_samples();
    std::vector<generate_prompt> prompts;
    for (const test::sample& s : samples)
      if (s.prompt.size() < 100) prompts.push_back({.tokens = s.prompt, .max_tokens = 60});
    for (size_t i = 0; i < prompts.size(); i += 2)
      prompts[i].sampling = {.temperature = 1, .top_p = 0.95f, .seed = i};
    const auto plain = generate(*model, prompts, {}, go_on);
    REQUIRE(plain);
    for (const uint32_t drafts : {1u, 3u, 5u}) {
      const auto drafted =
          generate(*model, prompts, {.prompts_in_flight = 5, .draft_tokens = drafts}, go_on);
      REQUIRE(drafted);
      uint32_t asked_for = 0, accepted = 0, stopped = 0;
      for (size_t i = 0; i < prompts.size(); ++i) {
        CAPTURE(i);
        CHECK((*drafted)[i].tokens == (*plain)[i].tokens);
        CHECK((*drafted)[i].end == (*plain)[i].end);
        asked_for += (*drafted)[i].drafted;
        accepted += (*drafted)[i].accepted;
        stopped += (*drafted)[i].end == generate_end::stop;
      }
      MESSAGE(drafts, " drafts: ", accepted, " of ", asked_for, " accepted");
      CHECK(accepted > asked_for / 10);
      CHECK(stopped > 5);
    }
  }
}
