#include "tests/kernel/backend.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::kernels;
using test::everywhere;
using test::random_floats;
using test::same_bits;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

struct question {
  std::vector<float> logits;  // rows one behind the other
  std::vector<int32_t> tokens;
  uint32_t keep = 0;

  [[nodiscard]] uint32_t rows() const { return static_cast<uint32_t>(tokens.size()); }
  [[nodiscard]] uint32_t width() const { return static_cast<uint32_t>(logits.size()) / rows(); }
};

// All outputs one behind the other: so their bits are compared at once.
std::vector<float> answer(const op_table& table, stream& queue, const question& q) {
  std::vector<float> chosen(q.rows(), 7), likely(size_t{q.rows()} * q.keep, 7);
  std::vector<int32_t> best(likely.size(), 7);
  table.logprob(queue, {chosen.data(), best.data(), likely.data(), q.logits.data(), q.tokens.data(),
                        q.rows(), q.keep, q.width(), q.width()});
  std::vector<float> out = chosen;
  out.insert(out.end(), likely.begin(), likely.end());
  out.insert(out.end(), best.begin(), best.end());  // ids below 2^24 are exact
  return out;
}

std::vector<float> everywhere_answer(const question& q) {
  return everywhere([&](const op_table& table, stream& own) { return answer(table, own, q); });
}

// Logits of several kinds: spread, with many ties, sharply peaked, all equal; some forbidden.
std::vector<float> logits_of_kind(test::rng& random, size_t count, uint32_t kind) {
  auto logits = random_floats(random, count, kind == 2 ? 60.0f : 6.0f);
  if (kind == 1)
    for (float& v : logits) v = std::floor(v / 2);
  if (kind == 3)
    for (float& v : logits) v = random.below(2) == 0 ? 0.0f : -0.0f;
  for (float& v : logits)
    if (random.below(9) == 0) v = -inf;
  logits[random.below(static_cast<uint32_t>(count))] = 2;
  return logits;
}

// log softmax in double, with the C library's functions.
std::vector<double> log_softmax(const float* logits, size_t width) {
  const double highest = *std::max_element(logits, logits + width);
  const double sum = std::accumulate(logits, logits + width, 0.0,
                                     [&](double s, float v) { return s + std::exp(v - highest); });
  std::vector<double> out;
  for (size_t v = 0; v < width; ++v) out.push_back(logits[v] - highest - std::log(sum));
  return out;
}

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("every backend gives the reference's log probabilities to the bit") {
    test::rng random{51};
    stream queue;
    for (int trial = 0; trial < 300; ++trial) {
      CAPTURE(trial);
      const uint32_t rows = 1 + random.below(4);
      const uint32_t width = 1 + random.below(trial % 30 == 0 ? 130000 : 300);
      question q{logits_of_kind(random, size_t{rows} * width, random.below(4)),
                 {},
                 random.below(most_alternatives + 1)};
      for (uint32_t r = 0; r < rows; ++r)
        q.tokens.push_back(static_cast<int32_t>(random.below(width)));
      CHECK(same_bits(everywhere_answer(q), answer(test::reference(), queue, q)));
    }
  }

  TEST_CASE("log probabilities are those of log softmax in double") {
    test::rng random{52};
    stream queue;
    for (const uint32_t width : {1u, 2u, 17u, 300u, 129280u})
      for (uint32_t kind = 0; kind < 4; ++kind) {
        CAPTURE(width);
        CAPTURE(kind);
        question q{logits_of_kind(random, width, kind), {0}, most_alternatives};
        const auto want = log_softmax(q.logits.data(), width);
        const auto near = [&](float got, double wanted) {
          return got == wanted || std::fabs(got - wanted) <= 1e-6 * std::max(1.0, -wanted);
        };
        double mass = 0;
        for (int32_t token = 0; token < static_cast<int32_t>(std::min(width, 300u)); ++token) {
          q.tokens = {token};
          const float got = answer(test::reference(), queue, q)[0];
          CHECK(got <= 0);
          CHECK(near(got, want[static_cast<size_t>(token)]));
          mass += std::exp(double{got});
        }
        if (width <= 300) CHECK(mass == doctest::Approx(1).epsilon(1e-5));
        const auto out = answer(test::reference(), queue, q);
        for (size_t i = 0; i < q.keep; ++i) {
          const float id = out[1 + q.keep + i];
          CHECK((id < 0 ? out[1 + i] == -inf : near(out[1 + i], want[static_cast<size_t>(id)])));
        }
      }
  }

  TEST_CASE("the best come higher first, then lower id, and are as many as are allowed") {
    const question q{{1, 3, -inf, 3, 0, -0.0f, -inf, 2}, {2}, 8};
    const auto out = everywhere_answer(q);
    CHECK(out[0] == -inf);  // a forbidden token
    CHECK(std::vector<float>(out.begin() + 9, out.end()) ==
          std::vector<float>{1, 3, 7, 0, 4, 5, -1, -1});
    CHECK(out[1] == out[2]);
    CHECK(out[5] == out[6]);
    CHECK(out[7] == -inf);
    CHECK(out[8] == -inf);
  }

  TEST_CASE("a row has the same log probabilities in every batch and for every number of best") {
    test::rng random{53};
    stream queue;
    const uint32_t width = 1000;
    question all{logits_of_kind(random, 6 * width, 0), {1, 20, 300, 4, 999, 0}, 20};
    const auto together = everywhere_answer(all);
    for (uint32_t r = 0; r < all.rows(); ++r)
      for (const uint32_t keep : {0u, 1u, 7u, 20u}) {
        const auto first = all.logits.begin() + r * width;
        const auto alone = everywhere_answer({{first, first + width}, {all.tokens[r]}, keep});
        CHECK(alone[0] == together[r]);
        for (size_t i = 0; i < keep; ++i) {
          CHECK(alone[1 + i] == together[6 + r * 20 + i]);
          CHECK(alone[1 + keep + i] == together[6 + 6 * 20 + r * 20 + i]);
        }
      }
  }

  TEST_CASE("a row with nothing to choose has NaN and no best") {
    for (const auto& logits : {std::vector<float>{1, NAN, 0}, {1, inf, 0}, {-inf, -inf, -inf}}) {
      const question q{logits, {0}, 2};
      stream queue;
      for (const auto& out : {everywhere_answer(q), answer(test::reference(), queue, q)}) {
        CHECK(std::isnan(out[0]));
        CHECK(std::vector<float>(out.begin() + 1, out.end()) ==
              std::vector<float>{-inf, -inf, -1, -1});
      }
    }
  }
}
