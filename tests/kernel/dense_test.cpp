#include "kernels/api/number_formats.hpp"
#include "kernels/api/portable_math.hpp"
#include "tests/kernel/backend.hpp"
#include "tests/kernel/random_weight.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::kernels;
using test::distance;
using test::everywhere;
using test::poisoned;
using test::random_floats;

TEST_SUITE("kernels") {
  TEST_CASE("portable exp and log stay within a few units of the library's") {
    test::rng random{1};
    for (int i = 0; i < 20000; ++i) {
      const double x = (random.real() - 0.5) * 200;
      CHECK(portable_exp(x) == doctest::Approx(std::exp(x)).epsilon(1e-15));
      const double y = std::exp(x / 4);
      CHECK(std::abs(portable_log(y) - std::log(y)) <= 1e-15 * std::max(1.0, std::abs(x)));
    }
    CHECK(portable_exp(-1e6) == 0);
    CHECK(portable_exp(0) == 1);
    CHECK(portable_log(1) == 0);
  }

  TEST_CASE("portable log1p and sigmoid keep their precision at both ends") {
    for (const double x : {0.0, 1e-300, 1e-17, 1e-9, 0.3, 1.0, 1e6})
      CHECK(portable_log1p(x) == doctest::Approx(std::log1p(x)).epsilon(1e-15));
    for (const double x : {-800.0, -40.0, -1.0, 0.0, 1e-9, 3.0, 40.0, 800.0})
      CHECK(portable_sigmoid(x) == doctest::Approx(1 / (1 + std::exp(-x))).epsilon(1e-15));
  }

  TEST_CASE("linear agrees with the reference over odd shapes, strides, formats and biases") {
    test::rng random{2};
    stream queue;
    for (const weight_format format :
         {weight_format::f32, weight_format::bf16, weight_format::fp8, weight_format::fp4})
      for (const uint32_t rows : {1u, 2u, 3u, 17u, 33u})
        for (const uint32_t in_width : {1u, 15u, 32u, 64u, 127u, 192u})
          for (const uint32_t out_width : {1u, 2u, 5u, 70u}) {
            if (format == weight_format::fp4 && in_width % 32 != 0) continue;
            CAPTURE(rows);
            CAPTURE(in_width);
            CAPTURE(out_width);
            const test::random_weight weight(random, format, out_width, in_width);
            const uint32_t in_stride = in_width + 3, out_stride = out_width + 1;
            const auto in = random_floats(random, size_t{rows} * in_stride);
            const auto bias = random_floats(random, out_width);
            for (const float* added : {bias.data(), static_cast<const float*>(nullptr)})
              for (const rounding round : {rounding::none, rounding::bf16}) {
                const auto run = [&](const op_table& table, stream& own) {
                  auto out = std::vector<float>(size_t{rows} * out_stride, 7);  // gaps stay
                  const linear_args args{out.data(), in.data(), weight.view, added,
                                         rows,       in_stride, out_stride,  round};
                  table.linear(own, {&args, 1});
                  return out;
                };
                CHECK(distance(everywhere(run), run(test::reference(), queue)) <=
                      (round == rounding::none ? 3e-6 : 4e-3));
              }
          }
  }

  TEST_CASE("a row of linear has the same bits in every batch and beside other products") {
    test::rng random{3};
    const uint32_t rows = 37, in_width = 224, out_width = 70;
    const auto in = random_floats(random, rows * in_width);
    for (const weight_format format :
         {weight_format::f32, weight_format::bf16, weight_format::fp8, weight_format::fp4}) {
      const test::random_weight weight(random, format, out_width, in_width);
      const test::random_weight other(random, weight_format::bf16, 9, in_width);
      everywhere([&](const op_table& table, stream& own) {
        auto whole = poisoned(rows * out_width), beside = poisoned(rows * 9);
        const linear_args both[] = {
            {beside.data(), in.data(), other.view, nullptr, rows, in_width, 9, rounding::none},
            {whole.data(), in.data(), weight.view, nullptr, rows, in_width, out_width,
             rounding::none}};
        table.linear(own, {both, 2});
        for (const uint32_t part : {1u, 2u, 5u, 16u, 36u}) {
          auto split = poisoned(rows * out_width);
          for (uint32_t r = 0; r < rows; r += part) {
            const linear_args some{split.data() + r * out_width,
                                   in.data() + r * in_width,
                                   weight.view,
                                   nullptr,
                                   std::min(part, rows - r),
                                   in_width,
                                   out_width,
                                   rounding::none};
            table.linear(own, {&some, 1});
          }
          CHECK(test::same_bits(split, whole));
        }
        return whole;
      });
    }
  }
}
