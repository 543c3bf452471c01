#include "kernels/api/cpu_device.hpp"
#include "tests/unit/runtime/model/sequence_runs.hpp"

using namespace deepinfer;
using namespace deepinfer::model;
using test::prompt_case;

namespace {

struct replay_choice {
  std::optional<uint32_t> kept_rows;
  replay_variant variant;
};

// One sequence of a random run and what it must come to.
struct runner {
  prompt_case prompt;
  std::vector<int32_t> reply;  ///< a second prompt behind the output, in the same sequence
  uint32_t outputs = 0;        ///< tokens wanted behind the first prompt; one behind the second
  std::unique_ptr<sequence> state;
  std::vector<int32_t> tokens;
  std::vector<int32_t> expected;
  std::vector<state_part> expected_state;

  [[nodiscard]] bool done() const { return tokens.size() == outputs + 1; }
};
std::vector<runner> make_runners(test::prompt_maker& maker, uint32_t count, uint32_t longest) {
  std::vector<runner> out;
  for (uint32_t i = 0; i < count; ++i) {
    runner& r = out.emplace_back();
    const uint32_t size = 1 + maker.random().below(longest);
    r.prompt = maker.text(size);
    r.prompt.sampling = maker.sampling();
    if (size > 20 && maker.random().below(2) == 0) {
      const uint32_t first = maker.random().below(size / 2);
      maker.add_image(r.prompt, first, 1 + maker.random().below(size / 4));
      maker.add_image(r.prompt, size * 3 / 4, 3);
    }
    r.outputs = 1 + maker.random().below(8);
    r.reply = maker.text(1 + maker.random().below(40)).tokens;
  }
  return out;
}

prompt_case second_prompt(const runner& r, std::span<const int32_t> output) {
  prompt_case out = r.prompt;
  out.tokens.insert(out.tokens.end(), output.begin(), output.end());
  out.tokens.insert(out.tokens.end(), r.reply.begin(), r.reply.end());
  return out;
}

// What the sequence comes to alone, with each prompt in one step.
void run_alone(step_model& model, runner& r) {
  const auto target = model.make_sequence();
  r.expected.push_back(test::feed(model, r.prompt, *target));
  const auto more = test::continued(model, *target, r.prompt.sampling, r.outputs - 1);
  r.expected.insert(r.expected.end(), more.begin(), more.end());
  r.expected.push_back(test::feed(model, second_prompt(r, r.expected), *target));
  r.expected_state = test::state_of(model, *target);
}

// The next item of a sequence: a random piece of its prompt, or one token.
step_item next_item(runner& r, test::rng& random) {
  const uint32_t left = r.prompt.size() - std::min(r.prompt.size(), r.state->computed_tokens());
  if (left == 0) return test::sampling(*r.state, {}, r.prompt.sampling);
  constexpr uint32_t sizes[] = {1, 2, 3, 17, 60, 1000};
  return test::chunk_of(r.prompt, *r.state,
                        std::min(left, 1 + random.below(sizes[random.below(6)])));
}

// Steps over random choices of the sequences, in random order, until all have what they want.
void run_together(step_model& model, std::vector<runner>& runners, test::rng& random) {
  for (runner& r : runners) r.state = model.make_sequence();
  std::vector<step_item> items;
  std::vector<runner*> chosen;
  while (!std::ranges::all_of(runners, &runner::done)) {
    items.clear();
    chosen.clear();
    for (runner& r : runners)
      if (!r.done() && random.below(3) != 0) chosen.push_back(&r);
    for (size_t i = 1; i < chosen.size(); ++i)
      std::swap(chosen[i], chosen[random.below(static_cast<uint32_t>(i + 1))]);
    for (runner* r : chosen) items.push_back(next_item(*r, random));
    model.step(items);
    for (size_t i = 0; i < items.size(); ++i) {
      REQUIRE_FALSE(items[i].failed);
      runner& r = *chosen[i];
      if (items[i].sample) r.tokens.push_back(items[i].sampled);
      if (items[i].sample && r.tokens.size() == r.outputs) r.prompt = second_prompt(r, r.tokens);
    }
  }
}

// One that this machine can run.
kernels::cpu_isa some_isa(test::rng& random) {
  const auto best = static_cast<uint32_t>(kernels::best_cpu_isa());
  return static_cast<kernels::cpu_isa>(random.below(best + 1));
}

void check_random_runs(std::string_view shape, const v41_options& options, uint64_t seed) {
  CAPTURE(shape);
  CAPTURE(seed);
  const auto alone = test::load_named(shape, options);
  test::prompt_maker maker(*alone, seed);
  test::rng& random = maker.random();
  v41_options other = options;
  other.pass_rows = ring_slack + 1 + random.below(random.below(2) == 0 ? 20 : 300);
  other.threads = 1 + random.below(3);
  other.isa = some_isa(random);
  CAPTURE(other.pass_rows);
  CAPTURE(other.threads);
  CAPTURE(kernels::name_of(*other.isa));
  const auto together = test::load_named(shape, other);
  auto runners = make_runners(maker, 4, shape == "tiny" ? 300 : 150);
  for (runner& r : runners) run_alone(*alone, r);
  run_together(*together, runners, random);
  for (runner& r : runners) {
    CAPTURE(r.prompt.size());
    CHECK(r.tokens == r.expected);
    CHECK(test::difference(test::state_of(*together, *r.state), r.expected_state) == "");
  }
}

// Of the minis, whose window is 16: everything, and replay that trims most of the prompts.
constexpr replay_choice mini_choices[] = {{0, replay_variant::late},
                                          {std::nullopt, replay_variant::late},
                                          {16, replay_variant::ced},
                                          {21, replay_variant::late},
                                          {28, replay_variant::ced}};

}  // namespace

TEST_SUITE("runtime/model") {
  TEST_CASE("any batch and any cut of the prompts give the bits of the sequence alone") {
    uint64_t seed = 100;
    for (const char* shape : {"mini", "mini12"})
      for (const numeric_level level : test::all_levels)
        for (const replay_choice& choice : mini_choices)
          check_random_runs(
              shape, {.level = level, .kept_rows = choice.kept_rows, .replay = choice.variant},
              ++seed);
  }

  TEST_CASE("any batch and any cut give the same bits with a drafter that listens") {
    uint64_t seed = 200;
    for (const char* shape : {"mini", "mini12"})
      for (const numeric_level level : test::all_levels)
        check_random_runs(shape, {.level = level, .draft_tokens = 5}, ++seed);
  }

  TEST_CASE("any batch and any cut give the same bits with the bundled model") {
    uint64_t seed = 300;
    for (const numeric_level level : test::all_levels)
      for (const std::optional<uint32_t> kept : {std::optional<uint32_t>(), std::optional(0u)})
        check_random_runs("tiny", {.level = level, .kept_rows = kept, .draft_tokens = 5}, ++seed);
  }
}
