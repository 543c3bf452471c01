#include "tests/support/rng.hpp"
#include "tests/unit/runtime/tokenizer/random_text.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"
#include "tests/unit/runtime/tokenizer/vector_lines.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace deepinfer;
using text::decode_mode;
using text::special_range;

TEST_SUITE("runtime/tokenizer") {
  TEST_CASE("plain text gives the ids of the reference library, and comes back from them") {
    const auto vectors = test::read_vectors("tests/golden/tokenizer/vectors.jsonl");
    REQUIRE(vectors.size() > 350);
    for (const test::vector_line& line : vectors) {
      const auto& text = line.text;
      const auto& ids = line.ids;
      CAPTURE(text);
      const auto made = test::tiny_tokenizer()->encode(text, {});
      REQUIRE(made);
      CHECK(*made == ids);
      CHECK(test::tiny_tokenizer()->decode(ids, decode_mode::keep_special) == text);
    }
  }

  TEST_CASE("recorded prompts with control tokens give the recorded ids") {
    const auto vectors = test::read_vectors("tests/golden/tokenizer/prompts.jsonl");
    REQUIRE(vectors.size() == 21);
    for (const test::vector_line& line : vectors) {
      const auto& text = line.text;
      const auto& ids = line.ids;
      CAPTURE(text);
      const auto specials = test::tiny_tokenizer()->find_specials(text);
      const auto made = test::tiny_tokenizer()->encode(text, specials);
      REQUIRE(made);
      CHECK(*made == ids);
      CHECK(test::tiny_tokenizer()->decode(ids, decode_mode::keep_special) == text);
    }
  }

  TEST_CASE("plain text never yields an added token, whatever it spells") {
    const auto& tokenizer = *test::tiny_tokenizer();
    for (int32_t id = 0; id < static_cast<int32_t>(tokenizer.vocabulary_size()); ++id) {
      if (!tokenizer.is_added(id)) continue;
      const auto ids = tokenizer.encode(tokenizer.token_text(id), {});
      REQUIRE(ids);
      CHECK(ids->size() > 1);
      for (const int32_t made : *ids) CHECK_FALSE(tokenizer.is_added(made));
    }
    for (uint64_t seed = 1; seed <= 300; ++seed) {
      CAPTURE(seed);
      test::rng random(seed);
      const std::string text = test::random_text(random, random.below(200));
      const auto ids = tokenizer.encode(text, {});
      REQUIRE(ids);
      bool found = false;
      for (const int32_t id : *ids) found = found || tokenizer.is_added(id);
      CHECK_FALSE(found);
      CHECK(tokenizer.decode(*ids, decode_mode::keep_special) == text);
    }
  }

  TEST_CASE("a plain run is encoded as one text, up to the next control token") {
    const auto& tokenizer = *test::tiny_tokenizer();
    // "}</" may merge across the border of template and content; two runs could not.
    const std::string text = "<tool_result>{\"t\": 20}</tool_result>";
    const std::string both = text + "<｜User｜>" + text;
    const auto one = tokenizer.encode(text, {});
    const auto two = tokenizer.encode(both, tokenizer.find_specials(both));
    REQUIRE((one && two));
    auto expected = *one;
    expected.push_back(*tokenizer.special_id("<｜User｜>"));
    expected.insert(expected.end(), one->begin(), one->end());
    CHECK(*two == expected);
  }

  TEST_CASE("special ranges out of order, out of bounds or without a token are refused") {
    const auto& tokenizer = *test::tiny_tokenizer();
    const std::string text = "a<think>b</think>";
    const auto refused = [&tokenizer, &text](std::vector<special_range> ranges) {
      const auto made = tokenizer.encode(text, ranges);
      return !made && made.error().code == error_code::invalid_argument;
    };
    CHECK(tokenizer.encode(text, std::vector<special_range>{{1, 8}, {9, 17}}));
    CHECK(refused({{9, 17}, {1, 8}}));
    CHECK(refused({{1, 8}, {1, 8}}));
    CHECK(refused({{1, 18}}));
    CHECK(refused({{1, 1}}));
    CHECK(refused({{0, 8}}));
    CHECK(refused({{1, 7}}));
  }

  TEST_CASE("added tokens are found leftmost first, the longest of those") {
    const auto& tokenizer = *test::tiny_tokenizer();
    const std::string text = "x<｜User｜><think><think";
    const auto found = tokenizer.find_specials(text);
    REQUIRE(found.size() == 2);
    CHECK(text.substr(found[0].begin, found[0].end - found[0].begin) == "<｜User｜>");
    CHECK(text.substr(found[1].begin, found[1].end - found[1].begin) == "<think>");
    const std::string longer = "<｜place▁holder▁no▁12｜>";
    CHECK(tokenizer.find_specials(longer) == std::vector<special_range>{{0, longer.size()}});
  }

  TEST_CASE("decoding can leave out special tokens and shows U+FFFD for broken characters") {
    const auto& tokenizer = *test::tiny_tokenizer();
    const std::vector<int32_t> ids = {0, *tokenizer.special_id("<think>"), 1, -5, 1 << 30};
    CHECK(tokenizer.decode(ids, decode_mode::skip_special) == "<think>");
    CHECK(tokenizer.decode(ids, decode_mode::keep_special) ==
          "<｜begin▁of▁sentence｜><think><｜end▁of▁sentence｜>");
    auto emoji = tokenizer.encode("😀", {});
    REQUIRE(emoji);
    emoji->pop_back();
    CHECK(tokenizer.decode(*emoji, decode_mode::keep_special) == "\uFFFD");
  }

  TEST_CASE("text that is not UTF-8, or too long, is refused") {
    for (const char* bad : {"\xFF", "a\xC3", "\xED\xA0\x80", "\xC0\x80", "\xF4\x90\x80\x80"}) {
      const auto made = test::tiny_tokenizer()->encode(bad, {});
      REQUIRE_FALSE(made);
      CHECK(made.error().code == error_code::invalid_argument);
    }
    text::tokenizer_limits limits;
    limits.max_text_bytes = 10;
    const auto strict =
        text::make_tokenizer(test::read_source("examples/models/tiny-v41/tokenizer.json"), limits);
    REQUIRE(strict);
    CHECK((*strict)->encode("0123456789", {}));
    const auto over = (*strict)->encode("0123456789a", {});
    REQUIRE_FALSE(over);
    CHECK(over.error().code == error_code::too_large);
  }
}
