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

namespace {

// Queries, keys and values side by side, as one linear layer writes them.
struct attention_case {
  uint32_t rows;
  uint32_t heads;
  uint32_t width;
  std::vector<float> data;

  attention_case(test::rng& random, uint32_t rows_in, uint32_t heads_in, uint32_t width_in)
      : rows(rows_in), heads(heads_in), width(width_in) {
    data = random_floats(random, size_t{rows} * 3 * heads * width, 2);
  }

  [[nodiscard]] std::vector<float> run(const op_table& table, stream& queue, rounding round) const {
    auto out = poisoned(size_t{rows} * heads * width);
    auto columns = poisoned(key_column_floats(rows, heads, width));
    const uint32_t part = heads * width;
    table.full_attention(
        queue, {out.data(), data.data(), data.data() + part, data.data() + 2 * part, columns.data(),
                rows, heads, width, 3 * part, 1 / std::sqrt(float(width)), round});
    return out;
  }
};

std::vector<float> rounded_copy(std::vector<float> values) {
  for (float& v : values) v = rounded(v, rounding::bf16);
  return values;
}

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("the portable error function stays within a few units of the library's") {
    for (int i = -7000; i <= 7000; ++i) {
      const double x = i / 1000.0 + 1e-5;
      CHECK(portable_erf(x) == doctest::Approx(std::erf(x)).epsilon(2e-15));
    }
    CHECK(portable_erf(0) == 0);
    CHECK(portable_erf(1e-300) == doctest::Approx(std::erf(1e-300)));
    CHECK(portable_erf(INFINITY) == 1);
    CHECK(portable_erf(-INFINITY) == -1);
    CHECK(std::isnan(portable_erf(NAN)));
  }

  TEST_CASE("full attention agrees with the reference over odd shapes") {
    test::rng random{61};
    stream queue;
    for (const uint32_t rows : {1u, 2u, 15u, 16u, 17u, 33u, 70u, 150u})
      for (const uint32_t heads : {1u, 3u})
        for (const uint32_t width : {1u, 4u, 16u, 20u, 40u, 64u}) {
          CAPTURE(rows);
          CAPTURE(width);
          const attention_case work(random, rows, heads, width);
          const auto want = work.run(test::reference(), queue, rounding::none);
          for (const op_table& table : test::backends()) {
            CAPTURE(table.name);
            const auto got = work.run(table, queue, rounding::none);
            CHECK(distance(got, want) <= 3e-6);
            CHECK(work.run(table, queue, rounding::bf16) == rounded_copy(got));
          }
        }
  }

  TEST_CASE("full attention has the same bits on every instruction set and number of threads") {
    test::rng random{62};
    const attention_case work(random, 187, 2, 24);
    stream alone;
    std::vector<std::vector<float>> results;
    for (const op_table& table : test::backends()) {
      results.push_back(work.run(table, alone, rounding::none));
      const auto device = make_cpu_device({.threads = 3});
      REQUIRE(device);
      stream queue = stream_of(*device);
      CHECK(work.run(table, queue, rounding::none) == results.back());
    }
    for (const auto& other : results) CHECK(other == results[0]);
  }

  TEST_CASE("full attention of a query does not depend on how many scores fit in scratch") {
    // Many keys leave room for few queries at once. Only the first keys weigh anything: the scores
    // are above 400 for them and 0 for the rest.
    test::rng random{63};
    const uint32_t rows = 16500, some = 40;
    attention_case large(random, rows, 1, 1);
    for (uint32_t r = 0; r < rows; ++r) {
      large.data[r * 3] = 20 + static_cast<float>(random.real());
      large.data[r * 3 + 1] = r < some ? 20 + static_cast<float>(random.real()) : 0;
    }
    attention_case small = large;
    small.rows = some;
    small.data.resize(some * 3);
    stream queue;
    const op_table table = test::backends().back();  // the slow ones would take seconds
    auto got = large.run(table, queue, rounding::none);
    got.resize(some);
    CHECK(got == small.run(table, queue, rounding::none));
  }

  TEST_CASE("grid rope turns the first half of the pairs by row, the second by column") {
    test::rng random{64};
    stream queue;
    const uint32_t grid_rows = 5, grid_columns = 3, heads = 2;
    for (const uint32_t head_width : {4u, 12u, 16u, 64u}) {
      const uint32_t stride = heads * head_width + 5;
      const auto tables = random_floats(random, 2 * 5 * head_width / 4);
      const float* cos = tables.data();
      const float* sin = cos + 5 * head_width / 4;
      const auto data = random_floats(random, size_t{grid_rows} * grid_columns * stride);
      for (const rounding round : {rounding::none, rounding::bf16}) {
        auto want = data;
        const auto turn = [&](const op_table& table, std::vector<float>& values) {
          table.grid_rope(queue, {values.data(), cos, sin, grid_rows, grid_columns, heads,
                                  head_width, stride, round});
        };
        turn(test::reference(), want);
        for (const op_table& table : test::backends()) {
          auto got = data;
          turn(table, got);
          CHECK(distance(got, want) <= (round == rounding::none ? 1e-6 : 4e-3));
          for (size_t i = 0; i < got.size(); ++i)
            if (i % stride >= heads * head_width) CHECK(got[i] == data[i]);  // the gaps
        }
      }
    }
    // by hand: one pair per half, a quarter turn by row 1 and none by column 0
    std::vector<float> head{1, 2, 3, 4};
    const std::vector<float> cos{1, 0}, sin{0, 1};
    std::vector<float> two_rows{9, 9, 9, 9, 1, 2, 3, 4};
    for (const op_table& table : test::backends()) {
      auto got = two_rows;
      table.grid_rope(queue, {got.data(), cos.data(), sin.data(), 2, 1, 1, 4, 4, rounding::none});
      CHECK(got == std::vector<float>{9, 9, 9, 9, -3, 2, 1, 4});
    }
  }

  TEST_CASE("add and gelu agree with the reference, in place too") {
    test::rng random{65};
    stream queue;
    for (const size_t count : {1u, 15u, 16u, 17u, 5000u}) {
      const auto a = random_floats(random, count, 5), b = random_floats(random, count, 5);
      for (const rounding round : {rounding::none, rounding::bf16}) {
        auto want_sum = poisoned(count), want_gelu = want_sum;
        test::reference().add(queue, {want_sum.data(), a.data(), b.data(), count, round});
        test::reference().gelu(queue, {want_gelu.data(), a.data(), count, round});
        for (const op_table& table : test::backends()) {
          auto sum = a, smooth = a;
          table.add(queue, {sum.data(), sum.data(), b.data(), count, round});
          CHECK(sum == want_sum);
          table.gelu(queue, {smooth.data(), smooth.data(), count, round});
          CHECK(distance(smooth, want_gelu) <= (round == rounding::none ? 1e-7 : 4e-3));
        }
      }
    }
  }

  TEST_CASE("cells take their patches channel by channel, zeros outside of the grid") {
    test::rng random{66};
    stream queue;
    for (const uint32_t side : {1u, 2u, 3u})
      for (const uint32_t grid_rows : {1u, 3u, 5u, 7u})
        for (const uint32_t grid_columns : {1u, 4u, 6u}) {
          const uint32_t width = 5,
                         cells = (grid_rows + side - 1) / side * ((grid_columns + side - 1) / side);
          const auto in = random_floats(random, size_t{grid_rows} * grid_columns * width);
          auto want = poisoned(size_t{cells} * width * side * side);
          test::reference().merge_cells(
              queue, {want.data(), in.data(), grid_rows, grid_columns, side, width});
          for (const op_table& table : test::backends()) {
            auto got = poisoned(want.size());
            table.merge_cells(queue, {got.data(), in.data(), grid_rows, grid_columns, side, width});
            CHECK(got == want);
          }
        }
    // by hand: one patch of two channels in a cell of 2 x 2
    const std::vector<float> patch{7, 8};
    for (const op_table& table : test::backends()) {
      auto got = poisoned(8);
      table.merge_cells(queue, {got.data(), patch.data(), 1, 1, 2, 2});
      CHECK(got == std::vector<float>{7, 0, 0, 0, 8, 0, 0, 0});
    }
  }
}
