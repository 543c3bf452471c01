#include "proto/codec/logprobs.hpp"

#include "proto/codec/msg.hpp"
#include "proto/types/limits.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::wire;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

std::vector<token_logprobs> random_rows(test::rng& random, const logprob_shape& shape) {
  std::vector<token_logprobs> rows(shape.tokens);
  for (token_logprobs& row : rows) {
    row.chosen = random.below(9) == 0 ? -inf : -static_cast<float>(random.real() * 40);
    for (uint32_t i = 1; i < shape.asked; ++i)
      row.best.push_back({static_cast<int32_t>(random.next() & 0x7FFFFFFF),
                          -static_cast<float>(random.real() * 40)});
  }
  return rows;
}

msg<Tokens> carried(std::span<const token_logprobs> rows, uint32_t asked) {
  draft<Tokens> out;
  write_logprobs(out->initLogprobs(), rows, asked);
  return *msg<Tokens>::open(out.freeze().bytes());
}

// Two tokens with one alternative each, spoiled by `change`.
error_code refused(const std::function<void(TokenLogprobs::Builder)>& change) {
  draft<Tokens> out;
  const token_logprobs row{-1, {{5, -0.25f}}};
  write_logprobs(out->initLogprobs(), std::vector{row, row}, 2);
  REQUIRE(read_logprobs(out->getLogprobs(), {2, 2}));
  change(out->getLogprobs());
  const auto read = read_logprobs(out->getLogprobs(), {2, 2});
  REQUIRE_FALSE(read);
  return read.error().code;
}

}  // namespace

TEST_SUITE("proto/codec") {
  TEST_CASE("log probabilities arrive as they were sent, bit for bit") {
    test::rng random{61};
    for (int round = 0; round < 200; ++round) {
      const logprob_shape shape{random.below(9), 1 + random.below(1 + limits::max_alternatives)};
      const auto rows = random_rows(random, shape);
      const auto read = read_logprobs(carried(rows, shape.asked).get().getLogprobs(), shape);
      REQUIRE(read);
      CHECK(*read == rows);
    }
  }

  TEST_CASE("a row with fewer alternatives than asked for comes back as short as it was") {
    const std::vector<token_logprobs> rows{
        {-1, {{3, -0.5f}}}, {-inf, {}}, {0, {{1, 0}, {2, -inf}}}};
    CHECK(*read_logprobs(carried(rows, 3).get().getLogprobs(), {3, 3}) == rows);
    CHECK(read_logprobs(carried(rows, 2).get().getLogprobs(), {3, 2})->at(2).best.size() == 1);
  }

  TEST_CASE("what nobody asked for is not read") {
    const std::vector<token_logprobs> rows{{1, {}}};
    CHECK(read_logprobs(carried(rows, 1).get().getLogprobs(), {1, 0})->empty());
    CHECK(read_logprobs(TokenLogprobs::Reader{}, {5, 0})->empty());
  }

  TEST_CASE("counts that do not fit the tokens are refused") {
    const std::vector<token_logprobs> rows{{-1, {{3, -0.5f}}}, {-2, {{4, -0.5f}}}};
    const auto sent = carried(rows, 2);
    const auto in = sent.get().getLogprobs();
    CHECK(read_logprobs(in, {2, 2}));
    for (const logprob_shape& shape : {logprob_shape{1, 2}, {3, 2}, {2, 1}, {2, 3}, {0, 2}})
      CHECK(read_logprobs(in, shape).error().code == error_code::corrupt);
    CHECK_FALSE(read_logprobs(TokenLogprobs::Reader{}, {1, 1}));
    CHECK(read_logprobs(TokenLogprobs::Reader{}, {0, 21})->empty());
    CHECK(refused([](auto out) { out.setBestIds({}); }) == error_code::corrupt);
    CHECK(refused([](auto out) { out.initBestIds(9); }) == error_code::corrupt);
    CHECK(refused([](auto out) { out.initBest(3); }) == error_code::corrupt);
  }

  TEST_CASE("numbers that are no log probabilities and ids that are no tokens are refused") {
    for (const float bad : {NAN, inf, 0.001f}) {
      CHECK(refused([=](auto out) { out.getChosen().set(1, bad); }) == error_code::corrupt);
      CHECK(refused([=](auto out) { out.getBest().set(0, bad); }) == error_code::corrupt);
    }
    CHECK(refused([](auto out) { out.getBestIds()[7] = 0x80; }) == error_code::corrupt);
  }
}
