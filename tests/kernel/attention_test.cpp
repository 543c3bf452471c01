#include "tests/kernel/backend.hpp"
#include "tests/kernel/packed_store.hpp"

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

// Rows with windows and selections of all lengths, an empty one among them.
struct attending {
  uint32_t rows, heads, width, stride;
  test::packed_store chosen;
  std::vector<float> window, query, sink;
  std::vector<uint32_t> first, count, selected_count;
  std::vector<int32_t> selected;

  attending(test::rng& random,
            uint32_t row_count,
            uint32_t head_count,
            uint32_t row_width,
            uint32_t most_selected,
            row_format format)
      : rows(row_count),
        heads(head_count),
        width(row_width),
        stride(most_selected),
        chosen(random, 150, row_width, 16, format),
        window(random_floats(random, size_t{160} * row_width, 2)),
        query(random_floats(random, size_t{row_count} * head_count * row_width, 2)),
        sink(random_floats(random, head_count, 3)) {
    for (uint32_t r = 0; r < rows; ++r) {
      count.push_back(r % 3 == 2 ? 0 : random.below(20) == 0 ? 130 : random.below(40));
      first.push_back(random.below(160 - count[r]));
      selected_count.push_back(r % 5 == 2 ? 0 : random.below(stride + 1));
    }
    selected_count[0] = stride;
    for (uint32_t i = 0; i < rows * stride; ++i)
      selected.push_back(static_cast<int32_t>(random.below(150)));
  }

  attention_args args(float* out, rounding round) const {
    return {out,
            query.data(),
            window.data(),
            first.data(),
            count.data(),
            chosen.view(),
            selected.data(),
            selected_count.data(),
            sink.data(),
            rows,
            heads,
            width,
            stride,
            0.35f,
            round};
  }
  [[nodiscard]] size_t outputs() const { return size_t{rows} * heads * width; }
};

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("attention agrees with the reference over windows, selections and empty rows") {
    test::rng random{23};
    stream queue;
    struct shape {
      uint32_t rows, heads, width, selected;
    };
    for (const shape& s : {shape{1, 1, 32, 0}, shape{4, 3, 64, 33}, shape{1, 5, 96, 200},
                           shape{7, 9, 160, 70}, shape{3, 64, 32, 65}, shape{2, 8, 512, 40}})
      for (const row_format format : {row_format::fp4_16, row_format::f32})
        for (const rounding round : {rounding::none, rounding::bf16}) {
          CAPTURE(s.width);
          const attending a(random, s.rows, s.heads, s.width, s.selected, format);
          auto want = poisoned(a.outputs());
          auto args = a.args(want.data(), round);
          test::reference().attention(queue, {&args, 1});
          const auto got = everywhere([&](const op_table& table, stream& own) {
            auto out = poisoned(a.outputs());
            auto mine = a.args(out.data(), round);
            table.attention(own, {&mine, 1});
            return out;
          });
          // an exponential or a result on a border may round to the other side
          CHECK(distance(got, want) <= (round == rounding::none ? 3e-6 : 4e-3));
        }
  }

  TEST_CASE("a row of attention has the same bits alone, in any split and beside others") {
    test::rng random{26};
    for (const uint32_t heads : {3u, 16u}) {
      const attending first(random, 17, heads, 64, 90, row_format::fp4_16);
      const attending second(random, 5, 2, 32, 12, row_format::f32);
      everywhere([&](const op_table& table, stream& own) {
        std::vector<float> whole(first.outputs()), other(second.outputs());
        const attention_args both[] = {second.args(other.data(), rounding::bf16),
                                       first.args(whole.data(), rounding::none)};
        table.attention(own, {both, 2});
        for (const uint32_t part : {1u, 2u, 7u, 17u}) {
          std::vector<float> split(first.outputs());
          for (uint32_t r = 0; r < first.rows; r += part) {
            auto a = first.args(split.data() + size_t{r} * heads * first.width, rounding::none);
            a.query += size_t{r} * heads * a.width;
            a.window_first += r;
            a.window_count += r;
            a.selected += size_t{r} * a.selected_stride;
            a.selected_count += r;
            a.rows = std::min(part, first.rows - r);
            table.attention(own, {&a, 1});
          }
          CHECK(split == whole);
        }
        return whole;
      });
    }
  }

  TEST_CASE("a layer without a compressed part attends its window alone") {
    test::rng random{27};
    stream queue;
    const attending a(random, 4, 2, 48, 8, row_format::f32);
    auto want = poisoned(a.outputs());
    const auto alone = [&](float* out) {
      auto args = a.args(out, rounding::none);
      args.selected = nullptr;
      args.selected_count = nullptr;
      args.selected_stride = 0;
      args.chosen = {nullptr, 1, row_format::f32};
      return args;
    };
    auto args = alone(want.data());
    test::reference().attention(queue, {&args, 1});
    CHECK(distance(everywhere([&](const op_table& table, stream& own) {
                     auto out = poisoned(a.outputs());
                     auto mine = alone(out.data());
                     table.attention(own, {&mine, 1});
                     return out;
                   }),
                   want) <= 3e-6);
    for (uint32_t c = 0; c < 2 * 48; ++c) CHECK(want[2 * 2 * 48 + c] == 0);  // row 2: no key at all
  }

  TEST_CASE("scores far apart neither overflow nor lose the sink") {
    const std::vector<float> window{100, 0, -100, 0}, query{30, 0}, sink{2990};
    const std::vector<uint32_t> first{0}, count{2};
    const auto out = everywhere([&](const op_table& table, stream& own) {
      auto got = poisoned(2);
      const attention_args args{got.data(),
                                query.data(),
                                window.data(),
                                first.data(),
                                count.data(),
                                {nullptr, 1, row_format::f32},
                                nullptr,
                                nullptr,
                                sink.data(),
                                1,
                                1,
                                2,
                                0,
                                1.0f,
                                rounding::none};
      table.attention(own, {&args, 1});
      return got;
    });
    CHECK(out[0] == doctest::Approx(100 / (1 + std::exp(-10.0))).epsilon(1e-6));
  }
}
