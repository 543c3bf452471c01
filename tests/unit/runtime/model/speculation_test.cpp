#include "tests/unit/runtime/model/sequence_runs.hpp"
#include "tests/unit/runtime/model/tiny_samples.hpp"

#include <array>

using namespace deepinfer;
using namespace deepinfer::model;
using test::prompt_case;

namespace {

// Drafts asked for and taken, over a run.
struct draft_count {
  uint64_t steps = 0, accepted = 0;
  std::array<uint64_t, 7> by_length{};  ///< steps that accepted 0, 1, ..
};

// One sequence that decodes with drafts.
struct drafting {
  prompt_case prompt;
  uint32_t drafts;
  uint32_t outputs;
  std::unique_ptr<sequence> state;
  std::vector<int32_t> tokens;

  [[nodiscard]] bool done() const { return tokens.size() >= outputs; }
};

step_item next_item(drafting& d, test::rng& random) {
  const uint32_t at = d.state->computed_tokens();
  if (at < d.prompt.size())
    return test::chunk_of(d.prompt, *d.state, std::min(d.prompt.size() - at, 1 + random.below(90)));
  step_item item = test::sampling(*d.state, {}, d.prompt.sampling);
  item.draft_tokens = d.drafts;
  return item;
}

// All sequences in the same steps, each with its own number of drafts; some still read their prompt
// while others verify.
void run_together(step_model& model,
                  std::vector<drafting>& all,
                  test::rng& random,
                  draft_count& count) {
  std::vector<step_item> items;
  std::vector<drafting*> chosen;
  while (!std::ranges::all_of(all, &drafting::done)) {
    items.clear();
    chosen.clear();
    for (drafting& d : all)
      if (!d.done() && random.below(4) != 0) chosen.push_back(&d);
    for (drafting* d : chosen) items.push_back(next_item(*d, random));
    model.step(items);
    for (size_t i = 0; i < items.size(); ++i) {
      REQUIRE_FALSE(items[i].failed);
      if (!items[i].sample) continue;
      drafting& d = *chosen[i];
      REQUIRE(items[i].accepted.size() <= d.drafts);
      d.tokens.insert(d.tokens.end(), items[i].accepted.begin(), items[i].accepted.end());
      d.tokens.push_back(items[i].sampled);
      if (!items[i].tokens.empty() || d.drafts == 0) continue;
      ++count.steps;
      count.accepted += items[i].accepted.size();
      ++count.by_length[items[i].accepted.size()];
    }
  }
}

// The same tokens without drafts, in a step for each, and then the same state.
void check_against_plain(step_model& plain, const step_model& drafted, const drafting& d) {
  const auto alone = plain.make_sequence();
  std::vector<int32_t> expected{test::feed(plain, d.prompt, *alone)};
  const auto more =
      test::continued(plain, *alone, d.prompt.sampling, static_cast<uint32_t>(d.tokens.size()) - 1);
  expected.insert(expected.end(), more.begin(), more.end());
  CHECK(d.tokens == expected);
  CHECK(d.state->last_sampled() == alone->last_sampled());
  CHECK(test::difference(plain, *alone, drafted, *d.state) == "");
}

void check_random_runs(std::string_view shape,
                       const v41_options& options,
                       uint64_t seed,
                       draft_count& count) {
  CAPTURE(shape);
  CAPTURE(seed);
  const auto model = test::load_named(shape, options);
  test::prompt_maker maker(*model, seed);
  v41_options other = options;
  other.pass_rows = ring_slack + 1 + maker.random().below(60);
  const auto drafted = test::load_named(shape, other);
  std::vector<drafting> all;
  for (uint32_t i = 0; i < 6; ++i) {
    drafting& d = all.emplace_back();
    d.prompt = maker.text(5 + maker.random().below(shape == "tiny" ? 200 : 60));
    if (i % 2 == 0) maker.add_image(d.prompt, 1, 1 + maker.random().below(4));
    d.prompt.sampling = maker.sampling();
    d.drafts = i;  // 0 to 5 in one step
    d.outputs = 20 + maker.random().below(20);
    d.state = drafted->make_sequence();
  }
  run_together(*drafted, all, maker.random(), count);
  for (const drafting& d : all) {
    CAPTURE(d.drafts);
    check_against_plain(*model, *drafted, d);
  }
}

std::string shown(const draft_count& count) {
  std::string out = std::to_string(count.accepted) + " drafts accepted in " +
                    std::to_string(count.steps) + " steps; steps by number accepted:";
  for (const uint64_t steps : count.by_length) out += " " + std::to_string(steps);
  return out;
}

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("drafts change neither tokens nor state, whatever their number in one step") {
    uint64_t seed = 400;
    draft_count count;
    for (const char* shape : {"mini", "mini12"})
      for (const numeric_level level : test::all_levels)
        for (const replay_variant variant : {replay_variant::late, replay_variant::ced})
          check_random_runs(shape, {.level = level, .replay = variant, .draft_tokens = 5}, ++seed,
                            count);
    MESSAGE(shown(count));
    CHECK(count.by_length[0] > 100);  // a random drafter is mostly wrong: every step rolls back
  }

  TEST_CASE("drafts of the bundled model are accepted at every length and change nothing") {
    const auto samples = test::read_samples();
    draft_count count;
    for (const numeric_level level : test::all_levels) {
      const auto model = test::load_named("tiny", {.level = level, .draft_tokens = 5});
      test::rng random{500};
      std::vector<drafting> all;
      for (uint32_t i = 0; i < samples.size(); ++i) {
        if (samples[i].prompt.size() > 100) continue;  // where the time goes
        drafting& d = all.emplace_back();
        d.prompt.tokens = samples[i].prompt;
        if (i % 3 == 1) d.prompt.sampling = {.temperature = 0.7f, .top_p = 0.9f, .seed = i};
        d.drafts = i % 2 == 0 ? 5 : 1 + random.below(5);
        d.outputs = 30;
        d.state = model->make_sequence();
      }
      run_together(*model, all, random, count);
      for (const drafting& d : all) check_against_plain(*model, *model, d);
    }
    MESSAGE(shown(count));
    for (uint32_t length = 0; length <= 5; ++length) CHECK(count.by_length[length] > 0);
  }

  TEST_CASE("the model's limit of drafts bounds what an item asks for") {
    const auto model = test::load_named("mini", {.draft_tokens = 2});
    test::prompt_maker maker(*model, 1);
    const prompt_case prompt = maker.text(30);
    const auto target = model->make_sequence();
    test::feed(*model, prompt, *target);
    for (uint32_t i = 0; i < 30; ++i) {
      step_item item = test::sampling(*target, {});
      item.draft_tokens = 1000;
      model->step({&item, 1});
      REQUIRE_FALSE(item.failed);
      CHECK(item.accepted.size() <= 2);
    }
    CHECK_FALSE(v41_model::load(test::mini_checkpoint("mini"), {.draft_tokens = 6}).has_value());
  }

  TEST_CASE("rows taken back leave the state of never having computed them") {
    for (const char* shape : {"mini", "mini12"})
      for (const numeric_level level : test::all_levels) {
        const auto model = test::load_named(shape, {.level = level, .kept_rows = 0});
        test::prompt_maker maker(*model, 7);
        const prompt_case right = maker.text(300), wrong = maker.text(300);
        const auto target = model->make_sequence();
        // Lengths around ends of groups, windows, rings and blocks, each with every roll-back.
        for (const uint32_t length : {1u, 2u, 3u, 4u, 5u, 15u, 16u, 17u, 18u, 22u, 23u, 24u, 126u,
                                      127u, 128u, 129u, 130u, 260u}) {
          test::feed_until(*model, right, *target, length);
          const auto before = test::state_of(*model, *target);
          for (uint32_t drafts = 1; drafts <= ring_slack; ++drafts) {
            CAPTURE(length);
            CAPTURE(drafts);
            test::feed_until(*model, wrong, *target, length + drafts);
            static_cast<v41_sequence&>(*target).roll_back(length);
            REQUIRE(test::difference(test::state_of(*model, *target), before) == "");
          }
        }
        const auto fresh = model->make_sequence();
        CHECK(test::feed(*model, right, *target) == test::feed(*model, right, *fresh));
        CHECK(test::difference(*model, *target, *model, *fresh) == "");
      }
  }

  TEST_CASE("a verify step ends at the context limit with the tokens of a plain run") {
    for (const char* shape : {"mini", "tiny"}) {
      draft_count count;
      for (const uint32_t limit : {40u, 41u, 42u, 43u, 44u, 45u}) {
        CAPTURE(limit);
        const auto model = test::load_named(shape, {.context_limit = limit, .draft_tokens = 5});
        test::prompt_maker maker(*model, 8);
        const prompt_case prompt = maker.text(20);
        const auto plain = model->make_sequence(), target = model->make_sequence();
        std::vector<int32_t> expected{test::feed(*model, prompt, *plain)};
        const auto more = test::continued(*model, *plain, {}, limit - 20);
        expected.insert(expected.end(), more.begin(), more.end());
        std::vector<int32_t> got{test::feed(*model, prompt, *target)};
        while (target->computed_tokens() < limit) {
          const auto some = test::continued(*model, *target, {}, 1, 5);
          got.insert(got.end(), some.begin(), some.end());
        }
        CHECK(got == expected);
        CHECK(target->computed_tokens() == limit);
        CHECK(test::difference(*model, *plain, *model, *target) == "");
        step_item beyond = test::sampling(*target, {});
        beyond.draft_tokens = 5;
        model->step({&beyond, 1});
        CHECK(beyond.failed);
        CHECK(beyond.accepted.empty());
        CHECK(target->computed_tokens() == limit);
      }
    }
  }

  TEST_CASE("a sequence moves between models with and without a drafter at any step") {
    for (const char* shape : {"mini", "tiny"}) {
      const auto with = test::load_named(shape, {.draft_tokens = 5});
      const auto without = test::load_named(shape, {});
      test::prompt_maker maker(*with, 9);
      prompt_case prompt = maker.text(150);
      prompt.sampling = {.temperature = 1, .top_p = 0.9f, .seed = 4};
      const auto stayed = without->make_sequence();
      std::vector<int32_t> expected{test::feed(*without, prompt, *stayed)};
      const auto more = test::continued(*without, *stayed, prompt.sampling, 80);
      expected.insert(expected.end(), more.begin(), more.end());
      std::vector<int32_t> all = prompt.tokens;
      auto target = with->make_sequence();
      all.push_back(test::feed(*with, prompt, *target));
      bool drafts = true;
      while (all.size() < prompt.size() + 60) {
        const v41_model& from = drafts ? *with : *without;
        v41_model& to = drafts ? *without : *with;
        auto moved = to.import_state(from.export_state(*target),
                                     std::span(all).first(target->computed_tokens()));
        REQUIRE(moved);
        (*moved)->set_last_sampled(target->last_sampled());
        target = *std::move(moved);
        drafts = !drafts;
        const auto some = test::continued(to, *target, prompt.sampling, 6, drafts ? 5 : 0);
        all.insert(all.end(), some.begin(), some.end());
      }
      const auto made = std::span(all).subspan(prompt.size());
      CHECK(std::ranges::equal(made, std::span(expected).first(made.size())));
    }
  }
}
