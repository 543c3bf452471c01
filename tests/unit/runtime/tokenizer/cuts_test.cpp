#include "runtime/tokenizer/text_part.hpp"
#include "tests/unit/runtime/tokenizer/random_text.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

using namespace deepinfer;
using text::special_range;

namespace {

/// All places where `whole` may be cut.
std::vector<size_t> all_cuts(std::string_view whole) {
  std::vector<size_t> cuts;
  for (size_t at = 0; (at = test::tiny_tokenizer()->next_cut(whole, at)) < whole.size(); ++at)
    cuts.push_back(at);
  return cuts;
}

std::vector<int32_t> encode(std::string_view whole, const std::vector<special_range>& specials) {
  const auto made = test::tiny_tokenizer()->encode(whole, specials);
  REQUIRE(made);
  return *made;
}

std::vector<int32_t> encode_parts(const std::vector<text::text_part>& parts) {
  std::vector<int32_t> joined;
  for (const text::text_part& part : parts) {
    const auto ids = encode(part.text, text::own_specials(part));
    joined.insert(joined.end(), ids.begin(), ids.end());
  }
  return joined;
}

}  // namespace

TEST_SUITE("runtime/tokenizer") {
  TEST_CASE("cutting at any choice of the allowed places and joining the ids changes nothing") {
    size_t tried = 0;
    for (uint64_t seed = 1; seed <= 600; ++seed) {
      CAPTURE(seed);
      test::rng random(seed);
      const std::string text = test::random_text(random, 10 + random.below(300));
      const uint32_t keep = 1 + random.below(4);  // all of them, or one of two to four
      auto cuts = all_cuts(text);
      std::erase_if(cuts, [&](size_t) { return random.below(keep) != 0; });
      tried += cuts.size();
      cuts.push_back(text.size());
      std::vector<int32_t> joined;
      size_t begin = 0;
      for (const size_t end : cuts) {
        const auto part = encode(std::string_view(text).substr(begin, end - begin), {});
        joined.insert(joined.end(), part.begin(), part.end());
        begin = end;
      }
      CHECK(joined == encode(text, {}));
    }
    CHECK(tried > 10'000);
  }

  TEST_CASE("the four rules allow what they name and nothing else") {
    using places = std::vector<size_t>;
    CHECK(all_cuts("ab cd") == places{2});           // a space behind something
    CHECK(all_cuts("a\tb") == places{1});            // or a tab
    CHECK(all_cuts("a  b") == places{1});            // never inside white space
    CHECK(all_cuts("a\nb") == places{2});            // behind the last line break
    CHECK(all_cuts("a\r\n\nb") == places{4});        // of several
    CHECK(all_cuts("a\n b").empty());                // white space goes on
    CHECK(all_cuts("a12345b") == places{1, 6});      // never inside a run of digits
    CHECK(all_cuts("中文ab。中") == places{6, 11});  // where the CJK class begins or ends
    CHECK(all_cuts("中1") == places{3});
    CHECK(all_cuts("abcdé...!?—").empty());
    CHECK(all_cuts("a\u3000b").empty());  // other white space may join what stands before it
    CHECK(all_cuts("\u3000 b").empty());
    CHECK(all_cuts("").empty());
  }

  TEST_CASE("the next cut is looked for from any byte, also inside a character") {
    const std::string text = "中文ab。中";
    for (size_t from = 0; from <= text.size() + 2; ++from) {
      CAPTURE(from);
      const size_t expected = from <= 6 ? 6 : from <= 11 ? 11 : text.size();
      CHECK(test::tiny_tokenizer()->next_cut(text, from) == expected);
    }
  }

  TEST_CASE("parts are the whole prompt, not smaller than asked for, and join to its ids") {
    const auto& tokenizer = *test::tiny_tokenizer();
    for (uint64_t seed = 1; seed <= 400; ++seed) {
      CAPTURE(seed);
      test::rng random(seed);
      std::string prompt;
      std::vector<special_range> specials;
      for (uint32_t left = random.below(12); left > 0; --left) {
        prompt += test::random_text(random, random.below(80));
        const std::string token = random.below(2) == 0 ? "<｜User｜>" : "</think>";
        specials.push_back({prompt.size(), prompt.size() + token.size()});
        prompt += token;
      }
      prompt += test::random_text(random, random.below(80));
      const size_t part_bytes = random.below(100);
      const auto parts = text::cut_parts(tokenizer, prompt, specials, part_bytes);
      std::string joined;
      size_t ranges = 0;
      for (const text::text_part& part : parts) {
        CHECK(part.offset == joined.size());
        joined += part.text;
        ranges += part.specials.size();
        if (joined.size() != prompt.size()) CHECK(part.text.size() >= part_bytes);
      }
      CHECK(joined == prompt);
      CHECK(ranges == specials.size());
      CHECK(encode_parts(parts) == encode(prompt, specials));
    }
  }

  TEST_CASE("what comes later does not change the parts before the last one") {
    const auto& tokenizer = *test::tiny_tokenizer();
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      CAPTURE(seed);
      test::rng random(seed);
      const std::string longer = test::random_text(random, 500);
      size_t shorter = random.below(static_cast<uint32_t>(longer.size()));
      while (shorter < longer.size() && (static_cast<uint8_t>(longer[shorter]) & 0xC0) == 0x80)
        ++shorter;
      const auto all = text::cut_parts(tokenizer, longer, {}, 50);
      const auto some =
          text::cut_parts(tokenizer, std::string_view(longer).substr(0, shorter), {}, 50);
      for (size_t i = 0; i + 1 < some.size(); ++i) CHECK(some[i].text == all[i].text);
    }
  }

  TEST_CASE("a long run has the same parts wherever it stands, and what follows it too") {
    const auto& tokenizer = *test::tiny_tokenizer();
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      CAPTURE(seed);
      test::rng random(seed);
      // Only this token is meant: the others that the texts spell are plain.
      const std::string token = "<｜User｜>";
      const std::string before = token + test::random_text(random, 300);
      const std::string common = test::random_text(random, 200) + token + " and " + token + " more";
      const auto cut = [&](const std::string& prompt) {
        std::vector<special_range> specials;
        for (size_t at = 0; (at = prompt.find(token, at)) != std::string::npos; at += token.size())
          specials.push_back({at, at + token.size()});
        const auto parts = text::cut_parts(tokenizer, prompt, specials, 40);
        std::vector<std::string> texts;
        for (const text::text_part& part : parts) texts.emplace_back(part.text);
        return texts;
      };
      const auto here = cut(token + common), there = cut(before + token + common);
      // All but the first: it holds what stands directly before the run.
      REQUIRE(here.size() > 2);
      REQUIRE(there.size() > here.size());
      CHECK(std::equal(here.begin() + 1, here.end(),
                       there.end() - static_cast<std::ptrdiff_t>(here.size()) + 1));
    }
  }

  TEST_CASE("a tokenizer with other expressions is never cut inside a plain run") {
    std::string json = test::read_source("examples/models/tiny-v41/tokenizer.json");
    const size_t at = json.find("\\\\p{N}{1,3}");
    REQUIRE(at != std::string::npos);
    json.replace(at, 11, "\\\\p{N}{1,4}");
    const auto other = text::make_tokenizer(json);
    REQUIRE(other);
    CHECK((*other)->next_cut("some words", 0) == 10);
    CHECK(text::cut_parts(**other, "some words <｜User｜> more",
                          std::vector<special_range>{{11, 23}}, 1)
              .size() == 2);
  }
}
