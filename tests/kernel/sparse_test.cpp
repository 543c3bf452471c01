#include "tests/kernel/backend.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace deepinfer;
using namespace deepinfer::kernels;
using test::distance;
using test::poisoned;
using test::random_floats;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

// A store of `count` random rows cut into pages.
struct random_pages {
  std::vector<std::vector<float>> memory;
  std::vector<const float*> pages;
  uint32_t page_rows;

  random_pages(test::rng& random, uint32_t count, uint32_t width, uint32_t rows_per_page)
      : page_rows(rows_per_page) {
    for (uint32_t first = 0; first < count; first += rows_per_page)
      memory.push_back(random_floats(random, size_t{rows_per_page} * width));
    for (const auto& page : memory) pages.push_back(page.data());
  }
  [[nodiscard]] paged_rows view() const { return {pages.data(), page_rows}; }
};

// Scores with many ties, as mini models have them.
std::vector<float> tied_scores(test::rng& random, size_t count) {
  std::vector<float> out(count);
  for (float& v : out) v = random.below(4) == 0 ? -0.0f : static_cast<float>(random.below(7)) - 2;
  for (float& v : out)
    if (random.below(9) == 0) v = random.below(2) == 0 ? -inf : NAN;
  return out;
}

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("index_score agrees with the reference and masks what is not visible") {
    test::rng random{21};
    stream queue;
    const uint32_t rows = 5, heads = 4, width = 20, entries = 50, block_size = 8, blocks = 7;
    const random_pages keys(random, entries, width, 16);
    const auto query = random_floats(random, rows * heads * width);
    const auto weight = random_floats(random, rows * heads);
    const std::vector<uint32_t> visible{0, 1, 17, 49, 50};
    std::vector<uint8_t> mask(rows * blocks);
    for (uint8_t& m : mask) m = static_cast<uint8_t>(random.below(2));
    for (const uint8_t* blocked :
         {static_cast<const uint8_t*>(nullptr), static_cast<const uint8_t*>(mask.data())}) {
      auto want = poisoned(rows * entries);
      index_score_args args{want.data(), query.data(), weight.data(), keys.view(), visible.data(),
                            blocked,     rows,         heads,         width,       entries,
                            entries,     blocks,       block_size,    0.3f};
      test::reference().index_score(queue, args);
      for (const op_table& table : test::backends()) {
        auto got = poisoned(want.size());
        args.score = got.data();
        table.index_score(queue, args);
        CHECK(distance(got, want) <= 2e-6);
        CHECK(got[0] == -inf);
      }
    }
  }

  TEST_CASE("selection is exact, ties and NaN included") {
    test::rng random{22};
    stream queue;
    for (int trial = 0; trial < 300; ++trial) {
      CAPTURE(trial);
      const uint32_t rows = 1 + random.below(3), entries = 1 + random.below(60);
      const uint32_t keep = 1 + random.below(20), block_size = 1 + random.below(8);
      const uint32_t blocks = (entries + block_size - 1) / block_size;
      const auto score = tied_scores(random, rows * entries);
      std::vector<uint32_t> visible(rows);
      for (uint32_t& v : visible) v = random.below(entries + 1);
      std::vector<float> scratch_score(blocks);
      std::vector<uint32_t> scratch(entries + blocks);
      const auto run = [&](const op_table& table, std::vector<int32_t>& index,
                           std::vector<uint32_t>& count, std::vector<uint8_t>& mask) {
        index.assign(rows * keep, -7);
        count.assign(rows, 99);
        mask.assign(rows * blocks, 9);
        table.select_top(queue, {index.data(), count.data(), score.data(), scratch.data(), rows,
                                 entries, entries, keep});
        table.select_blocks(
            queue, {mask.data(), score.data(), visible.data(), scratch_score.data(), scratch.data(),
                    rows, entries, entries, blocks, block_size, keep});
      };
      std::vector<int32_t> want_index, got_index;
      std::vector<uint32_t> want_count, got_count;
      std::vector<uint8_t> want_mask, got_mask;
      run(test::reference(), want_index, want_count, want_mask);
      for (const op_table& table : test::backends()) {
        run(table, got_index, got_count, got_mask);
        CHECK(got_index == want_index);
        CHECK(got_count == want_count);
        CHECK(got_mask == want_mask);
      }
    }
  }

  TEST_CASE("zero and minus zero tie, and the lower index wins") {
    stream queue;
    const std::vector<float> score{-1, -0.0f, 0.0f, -0.0f, 2};
    for (const op_table& table : test::backends()) {
      std::vector<int32_t> index(3);
      std::vector<uint32_t> count(1), scratch(5);
      table.select_top(queue,
                       {index.data(), count.data(), score.data(), scratch.data(), 1, 5, 5, 3});
      CHECK(index == std::vector<int32_t>{1, 2, 4});
    }
  }

  TEST_CASE("the block of the newest visible entry is always a candidate") {
    stream queue;
    const std::vector<float> score{5, 4, 3, 2, -9, -inf};
    const std::vector<uint32_t> visible{5};
    for (const op_table& table : test::backends()) {
      std::vector<uint8_t> mask(3, 9);
      std::vector<float> scratch_score(3);
      std::vector<uint32_t> scratch(3);
      table.select_blocks(queue, {mask.data(), score.data(), visible.data(), scratch_score.data(),
                                  scratch.data(), 1, 6, 6, 3, 2, 2});
      CHECK(mask == std::vector<uint8_t>{1, 0, 1});
    }
  }

  TEST_CASE("attention agrees with the reference over windows, selections and empty rows") {
    test::rng random{23};
    stream queue;
    for (const uint32_t width : {8u, 16u, 37u, 64u}) {
      const uint32_t rows = 4, heads = 3, stored = 70, stride = 33;
      const random_pages chosen(random, stored, width, 16);
      const auto window = random_floats(random, 40 * width, 2);
      const auto query = random_floats(random, rows * heads * width, 2);
      const auto sink = random_floats(random, heads, 3);
      const std::vector<uint32_t> first{0, 3, 0, 24}, count{1, 0, 0, 16},
          selected_count{0, 33, 0, 5};
      std::vector<int32_t> selected(rows * stride);
      for (int32_t& s : selected) s = static_cast<int32_t>(random.below(stored));
      std::vector<float> scratch(heads * 64);
      auto want = poisoned(rows * heads * width);
      attention_args args{want.data(),
                          query.data(),
                          window.data(),
                          first.data(),
                          count.data(),
                          chosen.view(),
                          selected.data(),
                          selected_count.data(),
                          sink.data(),
                          scratch.data(),
                          rows,
                          heads,
                          width,
                          stride,
                          64,
                          0.35f};
      test::reference().attention(queue, args);
      for (const op_table& table : test::backends()) {
        auto got = poisoned(want.size());
        args.out = got.data();
        table.attention(queue, args);
        CHECK(distance(got, want) <= 2e-6);
        CHECK(got[2 * heads * width] == 0);  // no key at all
      }
    }
  }

  TEST_CASE("scores far apart neither overflow nor lose the sink") {
    stream queue;
    const std::vector<float> window{100, 0, -100, 0}, query{30, 0}, sink{2990};
    const std::vector<uint32_t> first{0}, count{2};
    std::vector<float> scratch(4);
    for (const op_table& table : test::backends()) {
      auto out = poisoned(2);
      table.attention(queue, {out.data(),
                              query.data(),
                              window.data(),
                              first.data(),
                              count.data(),
                              {nullptr, 1},
                              nullptr,
                              nullptr,
                              sink.data(),
                              scratch.data(),
                              1,
                              1,
                              2,
                              0,
                              4,
                              1.0f});
      CHECK(out[0] == doctest::Approx(100 / (1 + std::exp(-10.0))).epsilon(1e-6));
    }
  }
}
