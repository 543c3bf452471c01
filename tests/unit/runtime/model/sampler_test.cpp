#include "runtime/model/sampler.hpp"

#include "kernels/api/philox.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::model;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

sampling_params hot(float temperature, uint64_t seed) {
  sampling_params params;
  params.temperature = temperature;
  params.seed = seed;
  return params;
}

// Chi-square of `draws` samples at consecutive positions against `expected` probabilities.
double chi_square(const std::vector<float>& logits,
                  const sampling_params& params,
                  const std::map<int32_t, double>& expected,
                  uint32_t draws) {
  std::map<int32_t, uint32_t> counts;
  for (uint32_t position = 0; position < draws; ++position) {
    const auto token = choose_token(logits, params, position);
    REQUIRE(token);
    REQUIRE(expected.contains(*token));
    ++counts[*token];
  }
  double sum = 0;
  for (const auto& [token, p] : expected) {
    const double want = p * draws;
    sum += (counts[token] - want) * (counts[token] - want) / want;
  }
  return sum;
}

}  // namespace

TEST_SUITE("runtime/model/sampler") {
  TEST_CASE("Philox gives the published known answers") {
    const auto words = [](kernels::philox_counter counter, kernels::philox_key key) {
      const auto out = kernels::philox4x32_10(counter, key);
      return std::vector<uint32_t>(out.word, out.word + 4);
    };
    CHECK(words({}, {}) == std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    const uint32_t f = 0xffffffff;
    CHECK(words({{f, f, f, f}}, {{f, f}}) ==
          std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    CHECK(words({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {{0xa4093822, 0x299f31d0}}) ==
          std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  }

  TEST_CASE("greedy takes the highest logit and the lowest id among equals") {
    CHECK(*choose_greedy(std::vector<float>{1, 3, 3, 2}) == 1);
    CHECK(*choose_greedy(std::vector<float>{-0.0f, 0.0f}) == 0);
    CHECK(*choose_greedy(std::vector<float>{-inf, -5}) == 1);
  }

  TEST_CASE("numbers that are not finite are refused, forbidden tokens are not") {
    CHECK_FALSE(choose_greedy(std::vector<float>{}));
    CHECK_FALSE(choose_greedy(std::vector<float>{1, NAN, 2}));
    CHECK_FALSE(choose_greedy(std::vector<float>{1, inf}));
    CHECK_FALSE(choose_greedy(std::vector<float>{-inf, -inf}));
    CHECK_FALSE(choose_token(std::vector<float>{1, NAN}, hot(1, 1), 0));
    for (uint64_t position = 0; position < 200; ++position)
      CHECK(*choose_token(std::vector<float>{-inf, 0, -inf, 0}, hot(1, 1), position) % 2 == 1);
  }

  TEST_CASE("parameters out of range are refused") {
    const std::vector<float> logits{1, 2};
    CHECK_FALSE(choose_token(logits, hot(-1, 0), 0));
    CHECK_FALSE(choose_token(logits, hot(NAN, 0), 0));
    auto params = hot(1, 0);
    params.top_p = 0;
    CHECK_FALSE(choose_token(logits, params, 0));
    params.top_p = 1.01f;
    CHECK_FALSE(choose_token(logits, params, 0));
  }

  TEST_CASE("log probabilities are told of the model's own distribution, forbidden tokens too") {
    const std::vector<float> logits{std::log(0.5f), -inf, std::log(0.2f), std::log(0.3f)};
    const auto told = log_probabilities(logits, 2, 3);
    REQUIRE(told);
    CHECK(told->chosen == doctest::Approx(std::log(0.2)).epsilon(1e-6));
    REQUIRE(told->best.size() == 3);
    CHECK(told->best[0].id == 0);
    CHECK(told->best[1].id == 3);
    CHECK(told->best[2] == scored_token{2, told->chosen});
    CHECK(told->best[1].logprob == doctest::Approx(std::log(0.3)).epsilon(1e-6));
    CHECK(log_probabilities(logits, 1, 0)->chosen == -inf);
    CHECK(log_probabilities(logits, 0, 20)->best.size() == 3);  // no more are allowed
    CHECK_FALSE(log_probabilities(logits, 0, 21));
    CHECK_FALSE(log_probabilities(logits, 4, 0));
    CHECK_FALSE(log_probabilities(logits, -1, 0));
    CHECK_FALSE(log_probabilities(std::vector<float>{1, NAN}, 0, 1));
    CHECK_FALSE(log_probabilities(std::vector<float>{-inf, -inf}, 0, 1));
    CHECK_FALSE(log_probabilities(std::vector<float>{}, 0, 1));
  }

  TEST_CASE("top-k keeps the best k, equal logits by lower id") {
    auto params = hot(1, 0);
    params.top_k = 3;
    const std::vector<float> logits{1, 2, 5, 2, 2, 0};
    CHECK(*kept_tokens(logits, params) == std::vector<int32_t>{2, 1, 3});
    params.top_k = 100;
    CHECK(kept_tokens(logits, params)->size() == logits.size());
  }

  TEST_CASE("top-p keeps the shortest prefix with that much mass, and at least one token") {
    auto params = hot(1, 0);
    const std::vector<float> logits{std::log(0.5f), std::log(0.3f), std::log(0.15f),
                                    std::log(0.05f)};
    params.top_p = 0.01f;
    CHECK(kept_tokens(logits, params)->size() == 1);
    params.top_p = 0.6f;
    CHECK(kept_tokens(logits, params)->size() == 2);
    params.top_p = 0.81f;
    CHECK(kept_tokens(logits, params)->size() == 3);
    params.top_p = 0.99f;
    CHECK(kept_tokens(logits, params)->size() == 4);
    // the mass is that of the scaled distribution: colder keeps less
    params.temperature = 0.2f;
    params.top_p = 0.9f;
    CHECK(kept_tokens(logits, params)->size() == 1);
  }

  TEST_CASE("samples follow the softmax of the kept logits") {
    std::vector<float> logits{0.3f, -1.2f, 2.0f, 0.9f, -0.4f, 1.1f, 0.0f, 0.6f};
    auto params = hot(0.8f, 42);
    for (const uint32_t top_k : {0u, 4u}) {
      params.top_k = top_k;
      const auto kept = *kept_tokens(logits, params);
      double total = 0;
      for (const int32_t id : kept) total += std::exp(logits[id] / 0.8);
      std::map<int32_t, double> expected;
      for (const int32_t id : kept) expected[id] = std::exp(logits[id] / 0.8) / total;
      // 99.9 % quantiles of chi-square: 24.3 at 7 degrees of freedom, 16.3 at 3
      CHECK(chi_square(logits, params, expected, 20000) < (top_k == 0 ? 24.3 : 16.3));
    }
  }

  TEST_CASE("the noise of a token does not depend on which tokens the filters keep") {
    const std::vector<float> logits{2.0f, 1.0f, 1.9f, 0.5f, 1.8f};
    auto narrow = hot(1, 9);
    narrow.top_k = 3;
    for (uint64_t position = 0; position < 500; ++position) {
      const int32_t wide_choice = *choose_token(logits, hot(1, 9), position);
      if (wide_choice % 2 == 0) CHECK(*choose_token(logits, narrow, position) == wide_choice);
    }
  }

  TEST_CASE("seed and position choose the noise; the same pair gives the same token") {
    const std::vector<float> logits(50, 0.0f);
    uint32_t differ_by_seed = 0, differ_by_position = 0;
    for (uint64_t position = 0; position < 100; ++position) {
      const int32_t first = *choose_token(logits, hot(1, 7), position);
      CHECK(*choose_token(logits, hot(1, 7), position) == first);
      differ_by_seed += *choose_token(logits, hot(1, 8), position) != first;
      differ_by_position += *choose_token(logits, hot(1, 7), position + 1) != first;
    }
    CHECK(differ_by_seed > 90);
    CHECK(differ_by_position > 90);
    // known answers, computed by a separate program from the definitions
    const std::vector<int32_t> known{0, 44, 44, 48};
    for (uint64_t position = 0; position < known.size(); ++position)
      CHECK(*choose_token(logits, hot(1, 7), position) == known[position]);
    CHECK(*choose_token(logits, hot(1, 7), uint64_t{1} << 40) == 19);
  }

  TEST_CASE("noise lies strictly between 0 and 1 and purposes do not share it") {
    for (uint32_t index = 0; index < 4000; ++index) {
      const double u = uniform_noise({3, 5, noise_purpose::target}, index);
      CHECK((u > 0 && u < 1));
      CHECK(u != uniform_noise({3, 5, noise_purpose::acceptance}, index));
    }
  }
}
