#include "tests/kernel/backend.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::kernels;
using test::everywhere;
using test::random_floats;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

std::vector<int32_t> tokens(const op_table& table,
                            stream& queue,
                            const std::vector<float>& logits,
                            const std::vector<sample_rule>& rules) {
  const auto rows = static_cast<uint32_t>(rules.size());
  const auto width = static_cast<uint32_t>(logits.size() / rows);
  std::vector<int32_t> out(rows, -7);
  table.sample(queue, {out.data(), logits.data(), rules.data(), rows, width, width});
  return out;
}

// Logits of several kinds: spread, with many ties, sharply peaked, forbidden here and there.
std::vector<float> logits_of_kind(test::rng& random, size_t count, uint32_t kind) {
  auto logits = random_floats(random, count, kind == 2 ? 40.0f : 6.0f);
  if (kind == 1)
    for (float& v : logits) v = std::floor(v / 2);
  if (kind == 3)
    for (float& v : logits) v = 1.5f;
  for (float& v : logits)
    if (random.below(9) == 0) v = -inf;
  logits[random.below(static_cast<uint32_t>(count))] = 2;
  return logits;
}

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("the exponential of masses is good to two units in the last place") {
    test::rng random{41};
    for (int i = 0; i < 20000; ++i) {
      const auto x = static_cast<float>((random.real() - 0.5) * 170);
      CHECK(portable_exp_float(x) == doctest::Approx(std::exp(double{x})).epsilon(3e-7));
    }
    CHECK(portable_exp_float(0) == 1);
    CHECK(portable_exp_float(-88) == 0);
    CHECK(portable_exp_float(-inf) == 0);
    CHECK(std::isnan(portable_exp_float(NAN)));
  }

  TEST_CASE("every backend samples the reference's token, whatever the filters and the ties") {
    test::rng random{42};
    stream queue;
    for (int trial = 0; trial < 400; ++trial) {
      CAPTURE(trial);
      const uint32_t rows = 1 + random.below(4);
      const uint32_t width = 1 + random.below(trial % 40 == 0 ? 40000 : 300);
      const auto logits = logits_of_kind(random, size_t{rows} * width, random.below(4));
      std::vector<sample_rule> rules(rows);
      for (sample_rule& rule : rules) {
        const float temperatures[] = {0.0f, 0.05f, 0.7f, 1.0f, 3.0f, 1e20f};
        const float masses[] = {1.0f, 0.999f, 0.95f, 0.5f, 1e-6f};
        rule.temperature = temperatures[random.below(6)];
        rule.top_p = masses[random.below(5)];
        rule.top_k = random.below(2) == 0 ? 0 : 1 + random.below(random.below(2) == 0 ? 20 : width);
        rule.purpose = random.below(3);
        rule.seed = random.next();
        rule.position = random.next() >> random.below(60);
      }
      const auto run = [&](const op_table& table, stream& own) {
        return tokens(table, own, logits, rules);
      };
      CHECK(everywhere(run) == run(test::reference(), queue));
    }
  }

  TEST_CASE("many best tokens of a whole vocabulary are ranked as the reference ranks them") {
    test::rng random{43};
    stream queue;
    const uint32_t width = 129280;
    for (const uint32_t kind : {0u, 1u, 2u, 3u}) {
      const auto logits = logits_of_kind(random, width, kind);
      for (const uint32_t top_k : {0u, 1u, 50u, 20000u, width - 5})
        for (const float top_p : {1.0f, 0.95f}) {
          const std::vector<sample_rule> rule{{0.9f, top_p, top_k, 0, 99, top_k}};
          const auto run = [&](const op_table& table, stream& own) {
            return tokens(table, own, logits, rule);
          };
          CHECK(everywhere(run) == run(test::reference(), queue));
        }
    }
  }

  TEST_CASE("a row with nothing to choose gives -1") {
    const std::vector<sample_rule> rules(5, {1, 1, 0, 0, 1, 1});
    const std::vector<float> logits{1, NAN, inf, 2, -inf, -inf, NAN, -inf, 0, -inf};
    CHECK(everywhere([&](const op_table& table, stream& own) {
            return tokens(table, own, logits, rules);
          }) == std::vector<int32_t>{-1, -1, -1, -1, 0});
    stream queue;
    CHECK(tokens(test::reference(), queue, logits, rules) ==
          std::vector<int32_t>{-1, -1, -1, -1, 0});
  }
}
