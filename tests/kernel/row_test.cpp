#include "kernels/api/number_formats.hpp"
#include "kernels/api/portable_math.hpp"
#include "tests/kernel/backend.hpp"

#include <doctest/doctest.h>

#include <cmath>
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
  TEST_CASE("rms_norm agrees with the reference, in place too") {
    test::rng random{4};
    stream queue;
    for (const uint32_t width : {1u, 7u, 15u, 16u, 17u, 127u, 1280u, 5120u})
      for (const rounding round : roundings)
        for (const float spread : {5.0f, 1e-16f}) {  // tiny rows: the epsilon is 1e-20
          const uint32_t rows = 9;
          const auto in = random_floats(random, rows * width, spread);
          const auto weight = random_floats(random, width);
          const auto run = [&](const op_table& table, stream& own) {
            auto out = in;
            table.rms_norm(own,
                           {out.data(), out.data(), weight.data(), rows, width, 1e-20f, round});
            auto apart = poisoned(in.size());
            table.rms_norm(own,
                           {apart.data(), in.data(), weight.data(), rows, width, 1e-20f, round});
            CHECK(test::same_bits(apart, out));
            return out;
          };
          CHECK(distance(everywhere(run), run(test::reference(), queue)) <= allowed(round, 2e-6));
        }
  }

  TEST_CASE("rope turns the tail of each head and backward undoes forward") {
    test::rng random{5};
    stream queue;
    for (const uint32_t pairs : {4u, 8u, 11u, 32u})
      for (const rounding round : roundings) {
        const uint32_t rows = 5, heads = 3, head_width = 2 * pairs + 16;
        const std::vector<uint32_t> position{0, 1, 77, 8191, 1000003};
        const auto frequency = random_floats(random, pairs);
        const auto data = random_floats(random, rows * heads * head_width);
        const auto tables = [&](const op_table& table, stream& own) {
          auto both = poisoned(2 * rows * pairs);
          table.rope_table(own, {both.data(), both.data() + rows * pairs, position.data(),
                                 frequency.data(), rows, pairs});
          return both;
        };
        const auto angles = everywhere(tables);
        CHECK(distance(angles, tables(test::reference(), queue)) <= 1e-7);
        const auto turned = [&](const op_table& table, stream& own, turn direction) {
          auto out = data;
          table.rope(own, {out.data(), angles.data(), angles.data() + rows * pairs, rows, heads,
                           head_width, pairs, direction, round});
          return out;
        };
        for (const turn direction : {turn::forward, turn::backward}) {
          const auto got = everywhere(
              [&](const op_table& table, stream& own) { return turned(table, own, direction); });
          CHECK(distance(got, turned(test::reference(), queue, direction)) <= allowed(round, 1e-6));
          for (uint32_t h = 0; h < rows * heads; ++h)
            for (uint32_t c = 0; c < 16; ++c)
              CHECK(got[h * head_width + c] == data[h * head_width + c]);
          CHECK(got[2 * head_width * heads - 1] != data[2 * head_width * heads - 1]);
        }
        if (round == rounding::bf16) continue;
        const auto back = everywhere([&](const op_table& table, stream& own) {
          auto out = turned(table, own, turn::forward);
          table.rope(own, {out.data(), angles.data(), angles.data() + rows * pairs, rows, heads,
                           head_width, pairs, turn::backward, round});
          return out;
        });
        CHECK(distance(back, data) <= 1e-6);
      }
  }

  TEST_CASE("sine and cosine round to the floats that the library's round to") {
    test::rng random{8};
    size_t differing = 0;
    for (int i = 0; i < 200000; ++i) {
      // any angle a table may ask for: small ones and those of far positions
      const auto position = static_cast<float>(random.below(i % 2 == 0 ? 1u << 20 : 1u << 31));
      const float x = position * static_cast<float>(std::pow(random.real(), 8));
      const sine_cosine got = portable_sine_cosine(x);
      differing += static_cast<float>(got.sine) != static_cast<float>(std::sin(double{x}));
      differing += static_cast<float>(got.cosine) != static_cast<float>(std::cos(double{x}));
    }
    CHECK(differing == 0);
  }

  TEST_CASE("rope rounds each product and sum by itself, as the released model does") {
    // With a fused multiply-add a cos - b sin would be the product's rounding error, not zero.
    const std::vector<float> angle{0x1.555556p-2f}, start{0x1.8p0f, 0x1.8p0f};
    everywhere([&](const op_table& table, stream& own) {
      auto out = start;
      table.rope(
          own, {out.data(), angle.data(), angle.data(), 1, 1, 2, 1, turn::forward, rounding::none});
      CHECK(out[0] == 0);
      return out;
    });
  }

  TEST_CASE("pool_groups weighs each channel by its own softmax") {
    test::rng random{6};
    stream queue;
    for (const uint32_t ratio : {1u, 2u, 3u, 8u})
      for (const uint32_t width : {1u, 16u, 19u, 512u})
        for (const rounding round : roundings) {
          const uint32_t groups = 5;
          const auto value = random_floats(random, groups * ratio * width);
          const auto gate = random_floats(random, groups * ratio * width, 30);
          const auto run = [&](const op_table& table, stream& own) {
            auto out = poisoned(groups * width);
            table.pool_groups(own,
                              {out.data(), value.data(), gate.data(), groups, ratio, width, round});
            return out;
          };
          CHECK(distance(everywhere(run), run(test::reference(), queue)) <= allowed(round, 2e-6));
        }
  }

  TEST_CASE("embed repeats the bf16 row, or the row given instead, over all streams") {
    test::rng random{7};
    stream queue;
    for (const uint32_t width : {3u, 16u, 50u}) {
      std::vector<uint16_t> rows_of_table;
      for (uint32_t i = 0; i < 5 * width; ++i)
        rows_of_table.push_back(bf16_bits(0.37f * static_cast<float>(i)));
      const auto picture = random_floats(random, width);
      const std::vector<int32_t> id{3, 0, 4};
      const std::vector<const float*> instead{nullptr, picture.data(), nullptr};
      for (const float* const* given :
           {static_cast<const float* const*>(nullptr), instead.data()}) {
        const auto run = [&](const op_table& table, stream& own) {
          auto out = poisoned(3 * 3 * width);
          table.embed(own, {out.data(), rows_of_table.data(), id.data(), given, 3, 3, width});
          return out;
        };
        const auto got = everywhere(run);
        CHECK(got == run(test::reference(), queue));
        CHECK(got[0] == bf16_value(rows_of_table[3 * width]));
        CHECK(got[5 * width] == (given == nullptr ? bf16_value(rows_of_table[0]) : picture[0]));
      }
    }
  }
}
