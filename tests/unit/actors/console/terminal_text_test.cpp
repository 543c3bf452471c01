#include "actors/console/terminal_text.hpp"

#include "runtime/recipe/json_value.hpp"
#include "runtime/tokenizer/utf8.hpp"
#include "tests/support/rng.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace deepinfer;
using namespace deepinfer::view;

namespace {

std::string random_bytes(test::rng& random, size_t most) {
  std::string out;
  const auto size = random.below(static_cast<uint32_t>(most));
  for (uint32_t i = 0; i < size; ++i) out += static_cast<char>(random.below(256));
  return out;
}

bool has_control(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto c = text::decode_at(text, at);
    if (c.value < 0x20 || (c.value >= 0x7F && c.value < 0xA0)) return true;
    at += c.bytes;
  }
  return false;
}

}  // namespace

TEST_SUITE("actors/console/terminal_text") {
  TEST_CASE("nothing that steers a terminal passes printable") {
    CHECK(printable("a\x1b[31mb") == "a\\x1b[31mb");
    CHECK(printable("one\ntwo\tthree\r") == "one\\x0atwo\\x09three\\x0d");
    CHECK(printable("\x7f") == "\\x7f");
    CHECK(printable("\xC2\x9B"
                    "31m") == "\\x9b31m");  // CSI in one character
    CHECK(printable("abc\xE2\x80\xAE"
                    "fdp.exe") == "abc\\u202efdp.exe");
    CHECK(printable("\xFF") == "\xEF\xBF\xBD");
    CHECK(printable("grün 模型 🙂") == "grün 模型 🙂");
  }

  TEST_CASE("random bytes come out as UTF-8 without control characters") {
    for (uint64_t seed = 0; seed < 500; ++seed) {
      CAPTURE(seed);
      test::rng random{seed};
      const std::string text = printable(random_bytes(random, 60));
      REQUIRE(text::is_utf8(text));
      CHECK_FALSE(has_control(text));
    }
  }

  TEST_CASE("text of several lines keeps line feeds and tabs only") {
    CHECK(printable_lines("a\n\tb\x1b]0;title\x07\r") == "a\n\tb\\x1b]0;title\\x07\\x0d");
  }

  TEST_CASE("JSON for a terminal means the same as before") {
    const std::string json = "{\"a\":\"x\x7f\xC2\x9B\xE2\x80\xAE\"}";
    const std::string shown = printable_json(json);
    CHECK(shown == R"({"a":"x\u007f\u009b\u202e"})");
    const auto before = recipe::parse_json(json), after = recipe::parse_json(shown);
    REQUIRE(before);
    REQUIRE(after);
    CHECK(*before->as<recipe::json_object>()->front().value.as<std::string>() ==
          *after->as<recipe::json_object>()->front().value.as<std::string>());
  }

  TEST_CASE("wide characters take two columns, marks and colours none") {
    CHECK(display_width("abc") == 3);
    CHECK(display_width("模型") == 4);
    CHECK(display_width("e\xCC\x81") == 1);
    CHECK(display_width("🙂") == 2);
    CHECK(display_width("│─╭█●") == 5);
    CHECK(display_width(palette{true}.paint(tone::bad, "abc")) == 3);
  }

  TEST_CASE("fit gives exactly the columns it was asked for") {
    CHECK(fit("abc", 5) == "abc  ");
    CHECK(fit("abc", 5, align::right) == "  abc");
    CHECK(fit("abcdef", 4) == "abc…");
    CHECK(fit("模型模型", 4) == "模… ");  // half a character is a blank
    CHECK(fit("abc", 0).empty());
    for (uint64_t seed = 0; seed < 300; ++seed) {
      CAPTURE(seed);
      test::rng random{seed};
      const std::string text = printable(random_bytes(random, 40)) + "模型é";
      const size_t width = random.below(30);
      CHECK(display_width(fit(text, width)) == width);
    }
  }

  TEST_CASE("a colour that is cut off does not run on") {
    const std::string red = palette{true}.paint(tone::bad, "abcdef");
    CHECK(clip(red, 4) == "\x1b[31mabc…\x1b[0m");
    CHECK(clip("xy" + red, 2) == "x…");
    CHECK(clip(red, 6) == red);
  }

  TEST_CASE("no colour is written when colours are off") {
    CHECK(palette{false}.paint(tone::bad, "abc") == "abc");
    CHECK(palette{true}.paint(tone::plain, "abc") == "abc");
  }

  TEST_CASE("counts are short and never round up to four digits") {
    CHECK(short_count(0) == "0");
    CHECK(short_count(0.44) == "0.4");
    CHECK(short_count(12) == "12");
    CHECK(short_count(999) == "999");
    CHECK(short_count(999.7) == "1.0k");
    CHECK(short_count(1234) == "1.2k");
    CHECK(short_count(999'600) == "1.0M");
    CHECK(short_count(34'000'000) == "34M");
    CHECK(short_count(-1500) == "-1.5k");
    CHECK(short_count(std::numeric_limits<double>::infinity()) == "?");
  }

  TEST_CASE("durations show their two largest units") {
    CHECK(short_duration(0) == "0s");
    CHECK(short_duration(59.9) == "59s");
    CHECK(short_duration(192) == "3m12s");
    CHECK(short_duration(3600 * 5 + 180) == "5h03m");
    CHECK(short_duration(86400 * 2 + 3600 * 4) == "2d04h");
    CHECK(short_duration(-1) == "?");
    CHECK(short_duration(std::numeric_limits<double>::quiet_NaN()) == "?");
  }
}
