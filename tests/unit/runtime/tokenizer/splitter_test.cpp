#include "runtime/tokenizer/splitter.hpp"

#include "runtime/tokenizer/utf8.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace deepinfer;

namespace {

std::vector<std::string> pieces(const text::splitter& splitter, std::string_view whole) {
  std::vector<uint32_t> ends;
  REQUIRE(splitter.split(whole, ends));
  std::vector<std::string> parts;
  uint32_t begin = 0;
  for (const uint32_t end : ends) {
    REQUIRE(end > begin);
    parts.emplace_back(whole.substr(begin, end - begin));
    begin = end;
  }
  REQUIRE(begin == whole.size());
  return parts;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

char32_t random_code_point(test::rng& random) {
  static constexpr char32_t interesting[] = {
      'a',    'Z',    '0',    '9',     ' ',     ' ',     '\t',    '\n',   '\r',   '.',    '<',
      '_',    '$',    0,      0x1C,    0x7F,    0x85,    0xA0,    0xAD,   0xE9,   0x301,  0x660,
      0xBD,   0x2003, 0x200B, 0x2028,  0x20AC,  0x20DD,  0x2164,  0x3000, 0x3040, 0x3042, 0x3099,
      0x309B, 0x30A0, 0x30A2, 0x30FB,  0x30FF,  0x3100,  0x4DFF,  0x4E00, 0x9FA5, 0x9FA6, 0xAC00,
      0xFEFF, 0xFF5C, 0xFFFD, 0x1D54F, 0x1F600, 0xE0001, 0x10FFFF};
  switch (random.below(8)) {
    case 0:
      return 0x21 + random.below(0x5E);
    case 1:
      return 0xA0 + random.below(0x460);
    // All of the BMP but surrogates; what Unicode 15 added or PCRE2 counts as white space by a rule
    // of its own (U+180E) is not comparable.
    case 2: {
      const char32_t c = 0x800 + random.below(0xD000);
      return c == 0x180E ? U'x' : c;
    }
    default:
      return interesting[random.below(std::size(interesting))];
  }
}

}  // namespace

TEST_SUITE("runtime/tokenizer") {
  TEST_CASE("the hand-written splitter cuts where the three expressions do") {
    const auto ours = text::make_deepseek_splitter();
    const auto theirs = text::make_regex_splitter(text::deepseek_expressions());
    REQUIRE(theirs);
    for (uint64_t seed = 1; seed <= 4000; ++seed) {
      test::rng random(seed);
      std::string text;
      for (uint32_t left = random.below(40); left > 0; --left)
        append_utf8(text, random_code_point(random));
      CAPTURE(seed);
      CAPTURE(text);
      CHECK(pieces(*ours, text) == pieces(**theirs, text));
    }
  }

  TEST_CASE("pieces of known texts") {
    const auto ours = text::make_deepseek_splitter();
    using parts = std::vector<std::string>;
    CHECK(pieces(*ours, "").empty());
    CHECK(pieces(*ours, "1234567") == parts{"123", "456", "7"});
    CHECK(pieces(*ours, "a  b") == parts{"a", " ", " b"});
    CHECK(pieces(*ours, "x   ") == parts{"x", "   "});
    CHECK(pieces(*ours, "x \n\n  y") == parts{"x", " \n\n", " ", " y"});
    CHECK(pieces(*ours, "don't") == parts{"don", "'t"});
    CHECK(pieces(*ours, "hi...\n\nyo") == parts{"hi", "...\n\n", "yo"});
    CHECK(pieces(*ours, "世界ab中") == parts{"世界", "ab", "中"});
    CHECK(pieces(*ours,
                 "\x01\x02"
                 "ab") == parts{"\x01",
                                "\x02"
                                "ab"});
    CHECK(pieces(*ours, "  1") == parts{"  ", "1"});  // look-ahead ends with its piece
  }

  TEST_CASE("an expression that does not compile is named") {
    const auto made = text::make_regex_splitter({"a+", "(b"});
    REQUIRE_FALSE(made);
    CHECK(made.error().code == error_code::invalid_argument);
    CHECK(made.error().detail.find("(b") != std::string::npos);
  }

  TEST_CASE("other expressions split too, and empty matches cut nothing") {
    using parts = std::vector<std::string>;
    const auto made = text::make_regex_splitter({"b*", "\\p{Lu}"});
    REQUIRE(made);
    CHECK(pieces(**made, "aÉbbcD") == parts{"a", "É", "bb", "c", "D"});
  }

  TEST_CASE("an expression that backtracks without end gives up with a failure") {
    const auto made = text::make_regex_splitter({"(a+a+)+$"});
    REQUIRE(made);
    std::vector<uint32_t> ends;
    const auto done = (*made)->split(std::string(5000, 'a') + "b", ends);
    REQUIRE_FALSE(done);
    CHECK(done.error().code == error_code::too_large);
  }
}
