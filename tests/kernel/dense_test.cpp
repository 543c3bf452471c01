#include "kernels/api/number_formats.hpp"
#include "kernels/api/portable_math.hpp"
#include "tests/kernel/backend.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::kernels;
using test::distance;
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

  TEST_CASE("linear agrees with the reference over odd shapes and strides") {
    test::rng random{2};
    stream queue;
    for (const uint32_t rows : {1u, 2u, 3u, 17u, 33u})
      for (const uint32_t in_width : {1u, 7u, 8u, 9u, 64u, 127u, 192u})
        for (const uint32_t out_width : {1u, 2u, 5u, 64u}) {
          const uint32_t in_stride = in_width + 3, out_stride = out_width + 1;
          const auto in = random_floats(random, size_t{rows} * in_stride);
          const auto weight = random_floats(random, size_t{out_width} * in_width);
          auto want = poisoned(size_t{rows} * out_stride);
          const linear_args args{want.data(), in.data(), weight.data(), rows,
                                 in_width,    out_width, in_stride,     out_stride};
          test::reference().linear(queue, args);
          for (const op_table& table : test::backends()) {
            CAPTURE(table.name);
            auto got = poisoned(want.size());
            auto own = args;
            own.out = got.data();
            table.linear(queue, own);
            for (uint32_t r = 0; r < rows; ++r) CHECK(std::isnan(got[(r + 1) * out_stride - 1]));
            for (size_t i = 0; i < got.size(); ++i)
              if (std::isnan(want[i])) got[i] = want[i] = 0;  // the gaps
            CHECK(distance(got, want) <= 2e-6);
            for (size_t i = 0; i < got.size(); ++i)
              if (i % out_stride == out_stride - 1) want[i] = NAN;
          }
        }
  }

  TEST_CASE("a row of linear has the same bits in every batch") {
    test::rng random{3};
    stream queue;
    const uint32_t rows = 37, in_width = 200, out_width = 31;
    const auto in = random_floats(random, rows * in_width);
    const auto weight = random_floats(random, out_width * in_width);
    for (const op_table& table : test::backends()) {
      auto whole = poisoned(rows * out_width);
      table.linear(queue, {whole.data(), in.data(), weight.data(), rows, in_width, out_width,
                           in_width, out_width});
      for (const uint32_t part : {1u, 2u, 5u, 16u, 36u}) {
        auto split = poisoned(rows * out_width);
        for (uint32_t r = 0; r < rows; r += part)
          table.linear(queue,
                       {split.data() + r * out_width, in.data() + r * in_width, weight.data(),
                        std::min(part, rows - r), in_width, out_width, in_width, out_width});
        CHECK(split == whole);
      }
    }
  }

  TEST_CASE("rms_norm agrees with the reference, in place too") {
    test::rng random{4};
    stream queue;
    for (const uint32_t width : {1u, 7u, 8u, 9u, 127u, 4096u}) {
      const uint32_t rows = 3;
      const auto in = random_floats(random, rows * width, 5);
      const auto weight = random_floats(random, width);
      auto want = poisoned(rows * width);
      test::reference().rms_norm(queue,
                                 {want.data(), in.data(), weight.data(), rows, width, 1e-20f});
      for (const op_table& table : test::backends()) {
        auto got = in;
        table.rms_norm(queue, {got.data(), got.data(), weight.data(), rows, width, 1e-20f});
        CHECK(distance(got, want) <= 2e-6);
      }
    }
  }

  TEST_CASE("rope turns the tail of each head and backward undoes forward") {
    test::rng random{5};
    stream queue;
    const uint32_t rows = 5, heads = 3, head_width = 24, pairs = 4;
    const std::vector<uint32_t> position{0, 1, 77, 8191, 1000003};
    const std::vector<float> frequency{1.0f, 0.1f, 0.01f, 0.003f};
    const auto data = random_floats(random, rows * heads * head_width);
    for (const op_table& table : test::backends()) {
      auto cos = poisoned(rows * pairs), sin = cos, want_cos = cos, want_sin = cos;
      table.rope_table(queue,
                       {cos.data(), sin.data(), position.data(), frequency.data(), rows, pairs});
      test::reference().rope_table(queue, {want_cos.data(), want_sin.data(), position.data(),
                                           frequency.data(), rows, pairs});
      CHECK(distance(cos, want_cos) <= 1e-7);
      CHECK(distance(sin, want_sin) <= 1e-7);
      auto got = data, want = data;
      rope_args args{got.data(), cos.data(), sin.data(), rows,
                     heads,      head_width, pairs,      turn::forward};
      table.rope(queue, args);
      args.data = want.data();
      test::reference().rope(queue, args);
      CHECK(distance(got, want) <= 1e-6);
      CHECK(got[head_width - 2 * pairs - 1] == data[head_width - 2 * pairs - 1]);
      CHECK(got[2 * head_width * heads - 1] != data[2 * head_width * heads - 1]);
      args.data = got.data();
      args.direction = turn::backward;
      table.rope(queue, args);
      CHECK(distance(got, data) <= 1e-6);
    }
  }

  TEST_CASE("pool_groups weighs each channel by its own softmax") {
    test::rng random{6};
    stream queue;
    for (const uint32_t ratio : {1u, 2u, 3u, 8u}) {
      const uint32_t groups = 5, width = 19;
      const auto value = random_floats(random, groups * ratio * width);
      const auto gate = random_floats(random, groups * ratio * width, 30);
      auto want = poisoned(groups * width);
      test::reference().pool_groups(queue,
                                    {want.data(), value.data(), gate.data(), groups, ratio, width});
      for (const op_table& table : test::backends()) {
        auto got = poisoned(groups * width);
        table.pool_groups(queue, {got.data(), value.data(), gate.data(), groups, ratio, width});
        CHECK(distance(got, want) <= 2e-6);
      }
    }
  }

  TEST_CASE("embed repeats the bf16 row over all streams") {
    stream queue;
    std::vector<uint16_t> table_rows;
    for (int i = 0; i < 12; ++i) table_rows.push_back(bf16_bits(0.37f * static_cast<float>(i)));
    const std::vector<int32_t> id{3, 0};
    auto want = poisoned(2 * 3 * 3);
    test::reference().embed(queue, {want.data(), table_rows.data(), id.data(), 2, 3, 3});
    CHECK(want[0] == bf16_value(table_rows[9]));
    for (const op_table& table : test::backends()) {
      auto got = poisoned(want.size());
      table.embed(queue, {got.data(), table_rows.data(), id.data(), 2, 3, 3});
      CHECK(got == want);
    }
  }
}
