#include "tests/kernel/backend.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::kernels;
using test::distance;
using test::everywhere;
using test::poisoned;
using test::random_floats;

namespace {

constexpr rounding roundings[] = {rounding::none, rounding::bf16};

// A result beside a border of bf16 may fall to its other side: half a step, 2^-8 of the value.
double allowed(rounding round, double exact) {
  return round == rounding::none ? exact : 4e-3;
}

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("hc_mix agrees with the reference for every number of streams") {
    test::rng random{11};
    stream queue;
    for (const uint32_t streams : {1u, 2u, 3u, 4u, 8u})
      for (const uint32_t width : {5u, 64u, 300u})
        for (const uint32_t rows : {1u, 6u, 19u}) {
          const uint32_t mixes = (2 + streams) * streams;
          const size_t singles = size_t{rows} * streams, pairs = singles * streams;
          const auto x = random_floats(random, singles * width, 3);
          const auto product = random_floats(random, size_t{rows} * mixes, 6);
          const auto base = random_floats(random, mixes);
          const std::vector<float> scale{1.1f, 0.7f, 2.0f};
          const auto run = [&](const op_table& table, stream& own) {
            auto all = poisoned(2 * singles + pairs);  // pre, post, comb
            table.hc_mix(own, {all.data(), all.data() + singles, all.data() + 2 * singles, x.data(),
                               product.data(), base.data(), scale.data(), rows, streams, width, 20,
                               1e-20f, 1e-6f});
            return all;
          };
          const auto want = run(test::reference(), queue);
          CHECK(distance(everywhere(run), want) <= 2e-6);
          // it ends on columns: each sums to 1 (up to the epsilons)
          const float* comb = want.data() + 2 * singles;
          for (uint32_t k = 0; k < streams; ++k) {
            double sum = 0;
            for (uint32_t j = 0; j < streams; ++j) sum += comb[j * streams + k];
            CHECK(sum == doctest::Approx(1).epsilon(1e-5));
          }
        }
  }

  TEST_CASE("hc_collapse and hc_expand agree with the reference") {
    test::rng random{12};
    stream queue;
    for (const uint32_t streams : {1u, 2u, 3u, 4u, 8u})
      for (const uint32_t width : {13u, 16u, 100u})
        for (const rounding round : roundings) {
          const uint32_t rows = 5;
          const auto x = random_floats(random, size_t{rows} * streams * width);
          const auto y = random_floats(random, size_t{rows} * width);
          const auto weights = random_floats(random, rows * streams);
          const auto comb = random_floats(random, rows * streams * streams);
          for (const float* pre : {weights.data(), static_cast<const float*>(nullptr)}) {
            const auto collapse = [&](const op_table& table, stream& own) {
              auto out = poisoned(size_t{rows} * width);
              table.hc_collapse(own, {out.data(), x.data(), pre, rows, streams, width, round});
              return out;
            };
            const auto want = collapse(test::reference(), queue);
            CHECK(distance(everywhere(collapse), want) <= allowed(round, 1e-6));
          }
          const auto expand = [&](const op_table& table, stream& own) {
            auto out = x;
            table.hc_expand(own, {out.data(), y.data(), weights.data(), comb.data(), rows, streams,
                                  width, round});
            return out;
          };
          const auto want = expand(test::reference(), queue);
          CHECK(distance(everywhere(expand), want) <= allowed(round, 1e-6));
        }
  }

  TEST_CASE("swiglu clamps, scales by the row weight and agrees with the reference") {
    test::rng random{14};
    stream queue;
    for (const uint32_t width : {1u, 16u, 21u, 600u})
      for (const float limit : {0.0f, 10.0f})
        for (const rounding round : roundings) {
          const uint32_t rows = 5;
          auto gate = random_floats(random, rows * width, 30);
          gate[0] = -200;
          const auto up = random_floats(random, rows * width, 30);
          const auto row_weight = random_floats(random, rows);
          for (const float* weight : {row_weight.data(), static_cast<const float*>(nullptr)}) {
            const auto run = [&](const op_table& table, stream& own) {
              auto out = gate;
              table.swiglu(own,
                           {out.data(), out.data(), up.data(), weight, rows, width, limit, round});
              return out;
            };
            CHECK(distance(everywhere(run), run(test::reference(), queue)) <= allowed(round, 1e-6));
          }
        }
  }

  TEST_CASE("gather then combine puts every expert's row back, in slot order") {
    test::rng random{15};
    stream queue;
    for (const uint32_t width : {9u, 64u, 1000u})
      for (const rounding round : roundings) {
        const uint32_t rows = 7, slots = 3;
        const auto parts = random_floats(random, rows * slots * width);
        const auto shared = random_floats(random, rows * width);
        std::vector<uint32_t> place(rows * slots);
        for (uint32_t i = 0; i < place.size(); ++i) place[i] = (i * 5) % (rows * slots);
        const auto combine = [&](const op_table& table, stream& own) {
          auto out = poisoned(rows * width);
          table.combine(own, {out.data(), parts.data(), place.data(), shared.data(), rows, slots,
                              width, round});
          return out;
        };
        CHECK(distance(everywhere(combine), combine(test::reference(), queue)) <=
              allowed(round, 1e-6));
        const auto gather = [&](const op_table& table, stream& own) {
          auto out = poisoned(place.size() * width);
          table.gather_rows(own, {out.data(), parts.data(), place.data(), rows * slots, width});
          return out;
        };
        CHECK(everywhere(gather) == gather(test::reference(), queue));
      }
  }

  TEST_CASE("engram rows are exact and the gate agrees with the reference; image rows keep x") {
    test::rng random{16};
    stream queue;
    const uint32_t table_rows = 40, row_width = 96;
    std::vector<uint8_t> codes(table_rows * row_width), scales(table_rows * row_width / 32);
    for (uint8_t& c : codes) c = static_cast<uint8_t>(random.below(127) | (random.below(2) << 7));
    for (uint8_t& s : scales) s = static_cast<uint8_t>(110 + random.below(20));
    const std::vector<int64_t> id{0, 39, 7, 7};
    const auto rows_of = [&](const op_table& table, stream& own) {
      auto out = poisoned(id.size() * row_width);
      table.engram_rows(own, {out.data(), codes.data(), scales.data(), id.data(), 4, row_width});
      return out;
    };
    CHECK(everywhere(rows_of) == rows_of(test::reference(), queue));
    for (const uint32_t width : {21u, 64u, 500u})
      for (const rounding round : roundings) {
        const uint32_t rows = 3, streams = 4;
        const auto x = random_floats(random, rows * streams * width);
        auto kv = random_floats(random, rows * (streams + 1) * width);
        for (uint32_t c = 0; c < width; ++c) kv[c] = 0;  // a dead key: gate of a zero
        const auto gain = random_floats(random, streams * width);
        const std::vector<uint8_t> image{0, 1, 0};
        for (const uint8_t* is_image : {image.data(), static_cast<const uint8_t*>(nullptr)}) {
          const auto gate = [&](const op_table& table, stream& own) {
            auto out = x;
            table.engram_gate(own, {out.data(), kv.data(), gain.data(), is_image, rows, streams,
                                    width, 1e-20f, round});
            return out;
          };
          const auto got = everywhere(gate);
          CHECK(distance(got, gate(test::reference(), queue)) <= allowed(round, 2e-6));
          CHECK((got[streams * width] == x[streams * width]) == (is_image != nullptr));
        }
      }
  }
}
