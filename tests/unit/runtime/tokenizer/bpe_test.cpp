#include "runtime/tokenizer/bpe.hpp"

#include "runtime/tokenizer/piece_table.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

using namespace deepinfer;
using text::bpe_merger;
using text::merge_rule;

namespace {

/// The definition: as long as some adjacent pair is in the list, merge the one of lowest rank, the
/// leftmost of equals.
std::vector<int32_t> merge_by_definition(const std::string& piece,
                                         const std::vector<merge_rule>& rules) {
  std::vector<int32_t> ids;
  for (const char c : piece) ids.push_back(static_cast<unsigned char>(c));
  for (;;) {
    size_t best_rule = rules.size(), best_at = 0;
    for (size_t at = 0; at + 1 < ids.size(); ++at)
      for (size_t r = 0; r < best_rule; ++r)
        if (rules[r].left == ids[at] && rules[r].right == ids[at + 1]) {
          best_rule = r;
          best_at = at;
        }
    if (best_rule == rules.size()) return ids;
    ids[best_at] = rules[best_rule].merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

std::array<int32_t, 256> identity() {
  std::array<int32_t, 256> ids{};
  for (int32_t i = 0; i < 256; ++i) ids[static_cast<size_t>(i)] = i;
  return ids;
}

/// Merges over a few letters, each of tokens that exist by then.
std::vector<merge_rule> random_rules(test::rng& random, uint32_t letters, uint32_t count) {
  std::vector<int32_t> known;
  for (uint32_t i = 0; i < letters; ++i) known.push_back(static_cast<int32_t>('a' + i));
  std::vector<merge_rule> rules;
  while (rules.size() < count) {
    const auto pick = [&] { return known[random.below(static_cast<uint32_t>(known.size()))]; };
    const merge_rule rule{pick(), pick(), 256 + static_cast<int32_t>(rules.size())};
    bool repeated = false;
    for (const merge_rule& old : rules)
      repeated = repeated || (old.left == rule.left && old.right == rule.right);
    if (repeated) continue;
    rules.push_back(rule);
    known.push_back(rule.merged);
  }
  return rules;
}

}  // namespace

TEST_SUITE("runtime/tokenizer") {
  TEST_CASE("pieces of every length merge as the definition says") {
    for (uint64_t seed = 1; seed <= 150; ++seed) {
      CAPTURE(seed);
      test::rng random(seed);
      const uint32_t letters = 1 + random.below(4);
      auto rules = random_rules(random, letters, 1 + random.below(letters * 4));
      // Half of the lists rank some pairs below the rules that make their halves.
      if (seed % 2 == 0)
        for (size_t i = rules.size(); i-- > 1;)
          std::swap(rules[i], rules[random.below(static_cast<uint32_t>(i) + 1)]);
      const bpe_merger merger(identity(), rules);
      for (const size_t length : {0u, 1u, 2u, 5u, 63u, 64u, 65u, 130u}) {
        std::string piece;
        while (piece.size() < length) piece += static_cast<char>('a' + random.below(letters));
        std::vector<int32_t> ids = {-7};
        merger.encode(piece, ids);
        REQUIRE(ids.front() == -7);
        ids.erase(ids.begin());
        CHECK(ids == merge_by_definition(piece, rules));
      }
    }
  }

  TEST_CASE("the table of whole pieces knows those that merge into one token, and no others") {
    size_t whole = 0, several = 0;
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      CAPTURE(seed);
      test::rng random(seed);
      auto rules = random_rules(random, 2, 1 + random.below(12));
      // Out of order, many a rule's own text merges in another way, into several tokens.
      for (size_t i = rules.size(); i-- > 1;)
        std::swap(rules[i], rules[random.below(static_cast<uint32_t>(i) + 1)]);
      const bpe_merger merger(identity(), rules);
      std::vector<std::string> candidates = {""};
      for (size_t size = 1; size <= 17; ++size) candidates.emplace_back(size, 'a');
      while (candidates.size() < 300) {
        std::string piece;
        for (uint32_t left = 1 + random.below(17); left > 0; --left)
          piece += static_cast<char>('a' + random.below(2));
        candidates.push_back(piece);
      }
      const text::piece_table table(merger, candidates);
      for (const std::string& piece : candidates) {
        std::vector<int32_t> ids;
        merger.encode(piece, ids);
        const bool is_whole =
            ids.size() == 1 && piece.size() <= text::piece_table::longest && !piece.empty();
        CHECK(table.find(piece) == (is_whole ? ids[0] : -1));
        ++(is_whole ? whole : several);
      }
      CHECK(table.find("abc") == -1);
      CHECK(table.find(std::string("a\0", 2)) == -1);
    }
    CHECK(whole > 1000);
    CHECK(several > 10'000);
  }

  TEST_CASE("pieces of one letter are told apart by their length") {
    const std::vector<merge_rule> rules = {
        {'a', 'a', 256}, {256, 256, 257}, {257, 257, 258}, {258, 258, 259}};
    const bpe_merger merger(identity(), rules);
    for (const size_t known : {2u, 4u, 8u, 16u}) {
      const std::vector<std::string> candidates = {std::string(known, 'a')};
      const text::piece_table table(merger, candidates);
      for (size_t size = 1; size <= 17; ++size)
        CHECK((table.find(std::string(size, 'a')) >= 0) == (size == known));
    }
  }

  TEST_CASE("pairs of all bytes merge, whatever their number") {
    std::vector<merge_rule> rules;
    for (int32_t left = 0; left < 256; ++left)
      for (int32_t right = 0; right < 256; ++right)
        rules.push_back({left, right, 256 + left * 256 + right});
    const bpe_merger merger(identity(), rules);
    for (const std::string piece : {"\xFF\xFF", "\xFE\xFF", "ab"}) {
      std::vector<int32_t> ids;
      merger.encode(piece, ids);
      CHECK(ids == merge_by_definition(piece, rules));
    }
  }

  TEST_CASE("without merges every byte is a token") {
    const bpe_merger merger(identity(), {});
    std::vector<int32_t> ids;
    merger.encode(std::string("\0\xFF", 2), ids);
    CHECK(ids == std::vector<int32_t>{0, 255});
  }

  TEST_CASE("a run of two million bytes is not quadratic work") {
    // A quadratic merge would take hours here, and the suite's time limit would say so.
    const std::vector<merge_rule> rules = {{'a', 'a', 256}, {256, 256, 257}, {257, 257, 258}};
    const bpe_merger merger(identity(), rules);
    std::vector<int32_t> ids;
    merger.encode(std::string(2'000'000, 'a'), ids);
    CHECK(ids.size() == 250'000);
    CHECK(ids.front() == 258);
    CHECK(ids.back() == 258);
  }
}
