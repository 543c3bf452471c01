#include "runtime/tokenizer/stream_decoder.hpp"
#include "runtime/tokenizer/utf8.hpp"
#include "tests/support/rng.hpp"
#include "tests/unit/runtime/tokenizer/tiny_tokenizer.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace deepinfer;
using namespace std::string_view_literals;

namespace {

/// Ids of single bytes in the bundled tokenizer.
int32_t byte_id(unsigned char byte) {
  const auto& tokenizer = *test::tiny_tokenizer();
  for (int32_t id = 0; id < static_cast<int32_t>(tokenizer.vocabulary_size()); ++id)
    if (!tokenizer.is_added(id) &&
        tokenizer.token_text(id) == std::string(1, static_cast<char>(byte)))
      return id;
  FAIL("no token for byte ", static_cast<int>(byte));
  return -1;
}

}  // namespace

TEST_SUITE("runtime/tokenizer") {
  TEST_CASE("a character in several tokens is released, and counted, with its last one") {
    text::stream_decoder decoder(test::tiny_tokenizer());
    const std::string emoji = "😀";
    for (size_t i = 0; i < 3; ++i) {
      const auto held = decoder.push(byte_id(static_cast<unsigned char>(emoji[i])));
      CHECK(held.text.empty());
      CHECK(held.tokens == 0);
    }
    const auto released = decoder.push(byte_id(static_cast<unsigned char>(emoji[3])));
    CHECK(released.text == emoji);
    CHECK(released.tokens == 4);
  }

  TEST_CASE("what is undecidable at the end gives neither text nor count") {
    text::stream_decoder decoder(test::tiny_tokenizer());
    CHECK(decoder.push(byte_id('a')).tokens == 1);
    CHECK(decoder.push(byte_id(0xF0)).tokens == 0);
    CHECK(decoder.push(byte_id(0x9F)).text.empty());
  }

  TEST_CASE("a broken byte followed by valid text becomes U+FFFD") {
    text::stream_decoder decoder(test::tiny_tokenizer());
    CHECK(decoder.push(byte_id(0xFF)).text.empty());
    const auto released = decoder.push(byte_id('b'));
    CHECK(released.text ==
          "\uFFFD"
          "b");
    CHECK(released.tokens == 2);
  }

  TEST_CASE("token by token gives what decoding at once gives, without half characters") {
    const auto& tokenizer = *test::tiny_tokenizer();
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      CAPTURE(seed);
      test::rng random(seed);
      std::vector<int32_t> ids;
      for (int i = 0; i < 60; ++i)
        ids.push_back(static_cast<int32_t>(random.below(tokenizer.vocabulary_size())));
      ids.push_back(byte_id('.'));  // a decided end: everything is released
      text::stream_decoder decoder(test::tiny_tokenizer());
      std::string joined;
      uint32_t tokens = 0;
      for (const int32_t id : ids) {
        const auto released = decoder.push(id);
        CHECK(text::is_utf8(released.text));
        joined += released.text;
        tokens += released.tokens;
      }
      CHECK(joined == tokenizer.decode(ids, text::decode_mode::keep_special));
      CHECK(tokens == ids.size());
    }
  }

  TEST_CASE("ill-formed parts are replaced as the Unicode standard recommends") {
    const std::vector<std::pair<std::string_view, std::string_view>> cases = {
        {"abc", "abc"},
        {"\xC3\xA9", "é"},
        {"\x80", "\uFFFD"},
        {"\xC3", "\uFFFD"},
        {"\xC3(", "\uFFFD("},
        {"\xE2\x82", "\uFFFD"},
        {"\xF0\x9F\x98 x", "\uFFFD x"},
        {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
        {"\xC0\xAF", "\uFFFD\uFFFD"},
        {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
        {"\xF0\x80\x80", "\uFFFD\uFFFD\uFFFD"},
        {"a\0b"sv, "a\0b"sv}};
    for (const auto& [bytes, expected] : cases) {
      std::string out;
      text::append_lossy(out, bytes);
      CHECK(out == expected);
      CHECK(text::is_utf8(bytes) == (out == bytes));
    }
  }

  TEST_CASE("whether a text ends undecided agrees with decoding it") {
    for (uint64_t seed = 1; seed <= 2000; ++seed) {
      CAPTURE(seed);
      test::rng random(seed);
      static constexpr unsigned char bytes[] = {'a',  0x80, 0xBF, 0xC3, 0xA9, 0xE2, 0x82, 0xED,
                                                0xEF, 0xBD, 0xF0, 0x9F, 0xF4, 0x90, 0xFF, 0xC0};
      std::string text;
      for (uint32_t left = random.below(9); left > 0; --left)
        text += static_cast<char>(bytes[random.below(std::size(bytes))]);
      std::string decoded;
      text::append_lossy(decoded, text);
      const bool expected = decoded.empty() || decoded.ends_with("\uFFFD");
      CHECK(text::ends_undecided(text) == expected);
    }
  }
}
