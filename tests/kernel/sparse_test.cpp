#include "tests/kernel/backend.hpp"
#include "tests/kernel/packed_store.hpp"

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

constexpr float inf = std::numeric_limits<float>::infinity();

// Scores with many ties, as mini models have them.
std::vector<float> tied_scores(test::rng& random, size_t count) {
  std::vector<float> out(count);
  for (float& v : out) v = random.below(4) == 0 ? -0.0f : static_cast<float>(random.below(7)) - 2;
  for (float& v : out)
    if (random.below(9) == 0) v = random.below(2) == 0 ? -inf : NAN;
  return out;
}

// One sequence's index scores and what they are made of.
struct scoring {
  uint32_t rows, heads, width, entries, block_size, blocks, stride;
  test::packed_store keys;
  std::vector<float> query, weight;
  std::vector<uint32_t> visible;
  std::vector<uint8_t> mask;

  scoring(test::rng& random, uint32_t row_count, uint32_t entry_count, row_format format)
      : rows(row_count),
        heads(4 + random.below(9)),
        width(32 * (1 + random.below(4))),
        entries(entry_count),
        block_size(1 + random.below(9)),
        blocks((entry_count + block_size - 1) / block_size),
        stride(entry_count + random.below(5)),
        keys(random, entry_count, width, 16, format),
        query(random_floats(random, size_t{row_count} * heads * width)),
        weight(random_floats(random, size_t{row_count} * heads)) {
    for (uint32_t r = 0; r < rows; ++r) visible.push_back(random.below(entries + 1));
    visible[rows - 1] = entries;
    for (uint32_t i = 0; i < rows * blocks; ++i)
      mask.push_back(static_cast<uint8_t>(random.below(3) == 0 ? 0 : 1));
  }

  index_score_args args(float* score, const uint8_t* block_mask) const {
    return {score, query.data(), weight.data(), keys.view(), visible.data(), block_mask, rows,
            heads, width,        entries,       stride,      blocks,         block_size, 0.3f};
  }
  [[nodiscard]] size_t outputs() const { return size_t{rows} * stride; }
};

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("index_score agrees with the reference and masks what is not visible") {
    test::rng random{21};
    stream queue;
    for (const row_format format : {row_format::fp4_32, row_format::f32})
      for (const uint32_t rows : {1u, 2u, 5u, 17u})
        for (const uint32_t entries : {1u, 50u, 130u}) {
          CAPTURE(rows);
          CAPTURE(entries);
          const scoring s(random, rows, entries, format);
          for (const uint8_t* mask :
               {static_cast<const uint8_t*>(nullptr), static_cast<const uint8_t*>(s.mask.data())}) {
            auto want = std::vector<float>(s.outputs(), 5);
            auto args = s.args(want.data(), mask);
            test::reference().index_score(queue, {&args, 1});
            const auto got = everywhere([&](const op_table& table, stream& own) {
              auto out = std::vector<float>(s.outputs(), 5);  // the gaps stay as they are
              auto mine = s.args(out.data(), mask);
              table.index_score(own, {&mine, 1});
              return out;
            });
            CHECK(distance(got, want) <= 3e-6);
          }
        }
  }

  TEST_CASE("a row's index scores have the same bits alone, in any split and beside others") {
    test::rng random{24};
    const uint32_t rows = 13;
    std::vector<scoring> items;
    for (int i = 0; i < 3; ++i)
      items.emplace_back(random, rows, 90 + 70 * static_cast<uint32_t>(i), row_format::fp4_32);
    everywhere([&](const op_table& table, stream& own) {
      std::vector<std::vector<float>> together;
      std::vector<index_score_args> batch;
      for (const scoring& s : items) together.emplace_back(s.outputs(), 0.0f);
      for (size_t i = 0; i < items.size(); ++i)
        batch.push_back(items[i].args(together[i].data(), items[i].mask.data()));
      table.index_score(own, {batch.data(), 3});
      for (size_t i = 0; i < items.size(); ++i)
        for (const uint32_t part : {1u, 2u, 5u, rows}) {
          std::vector<float> split(items[i].outputs(), 0.0f);
          for (uint32_t r = 0; r < rows; r += part) {
            auto a = items[i].args(split.data() + size_t{r} * items[i].stride, nullptr);
            a.block_mask = items[i].mask.data() + size_t{r} * items[i].blocks;
            a.query += size_t{r} * a.heads * a.width;
            a.weight += size_t{r} * a.heads;
            a.visible += r;
            a.rows = std::min(part, rows - r);
            table.index_score(own, {&a, 1});
          }
          CHECK(split == together[i]);
        }
      return together[0];
    });
  }

  TEST_CASE("selection is exact, ties and NaN included") {
    test::rng random{22};
    for (int trial = 0; trial < 300; ++trial) {
      CAPTURE(trial);
      // now and then long enough to overflow the candidate buffer again and again
      const bool is_long = trial % 30 == 0;
      const uint32_t rows = 1 + random.below(3);
      const uint32_t entries = 1 + random.below(is_long ? 30000 : 60);
      const uint32_t keep = 1 + random.below(is_long ? 700 : 20);
      const uint32_t block_size = 1 + random.below(9);
      const uint32_t blocks = (entries + block_size - 1) / block_size;
      auto score = trial % 3 == 0 ? random_floats(random, size_t{rows} * entries)
                                  : tied_scores(random, size_t{rows} * entries);
      if (trial % 60 == 0)
        std::sort(score.begin(), score.end());  // every entry beats the last ones
      std::vector<uint32_t> visible(rows);
      for (uint32_t& v : visible) v = random.below(entries + 1);
      const auto run = [&](const op_table& table, stream& own) {
        std::vector<int32_t> all(size_t{rows} * keep, -7);
        std::vector<uint32_t> count(rows, 99);
        std::vector<uint8_t> mask(size_t{rows} * blocks, 9);
        table.select_top(own,
                         {all.data(), count.data(), score.data(), rows, entries, entries, keep});
        table.select_blocks(own, {mask.data(), score.data(), visible.data(), rows, entries, entries,
                                  blocks, block_size, keep});
        all.insert(all.end(), count.begin(), count.end());
        all.insert(all.end(), mask.begin(), mask.end());
        return all;
      };
      stream queue;
      CHECK(everywhere(run) == run(test::reference(), queue));
    }
  }

  TEST_CASE("zero and minus zero tie, and the lower index wins") {
    const std::vector<float> score{-1, -0.0f, 0.0f, -0.0f, 2};
    CHECK(everywhere([&](const op_table& table, stream& own) {
            std::vector<int32_t> index(3);
            std::vector<uint32_t> count(1);
            table.select_top(own, {index.data(), count.data(), score.data(), 1, 5, 5, 3});
            return index;
          }) == std::vector<int32_t>{1, 2, 4});
  }

  TEST_CASE("the block of the newest visible entry is always a candidate") {
    const std::vector<float> score{5, 4, 3, 2, -9, -inf};
    const std::vector<uint32_t> visible{5};
    CHECK(everywhere([&](const op_table& table, stream& own) {
            std::vector<uint8_t> mask(3, 9);
            table.select_blocks(own, {mask.data(), score.data(), visible.data(), 1, 6, 6, 3, 2, 2});
            return mask;
          }) == std::vector<uint8_t>{1, 0, 1});
  }
}
