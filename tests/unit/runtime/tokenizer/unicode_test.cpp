#include "runtime/tokenizer/deepseek_classes.hpp"
#include "runtime/tokenizer/utf8.hpp"
#include "tests/unit/runtime/tokenizer/vector_lines.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

using namespace deepinfer;

namespace {

constexpr uint32_t code_points = 0x110000;

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

/// Class bits of every code point, from Unicode's own table.
std::vector<uint8_t> listed_classes() {
  std::vector<uint8_t> classes(code_points, 0);
  for (const std::string& line : test::read_source_lines("tests/golden/tokenizer/categories.txt")) {
    if (line.starts_with('#')) continue;
    std::istringstream in(line);
    uint32_t first = 0, last = 0;
    char kind = 0;
    in >> std::hex >> first >> last >> kind;
    const auto bit = kind == 'L'   ? text::letter
                     : kind == 'M' ? text::mark
                     : kind == 'N' ? text::number
                                   : text::punctuation;
    for (uint32_t c = first; c <= last; ++c) classes[c] = bit;
  }
  return classes;
}

}  // namespace

TEST_SUITE("runtime/tokenizer") {
  TEST_CASE("every character has the class of its Unicode 15 category") {
    const std::vector<uint8_t> listed = listed_classes();
    constexpr uint8_t categories = text::letter | text::mark | text::number | text::punctuation;
    size_t wrong = 0, letters = 0;
    for (uint32_t c = 0; c < code_points; ++c) {
      const auto got = static_cast<uint8_t>(text::classify(c) & categories);
      letters += got == text::letter;
      if (got == listed[c]) continue;
      ++wrong;
      CAPTURE(c);
      CHECK(got == listed[c]);
    }
    CHECK(wrong == 0);
    CHECK(letters == 136'104);  // of Unicode 15.0; other versions have other numbers
  }

  TEST_CASE("white space, line breaks, the CJK class and ASCII letters are exactly these") {
    size_t spaces = 0, breaks = 0, cjk = 0, ascii = 0;
    for (uint32_t c = 0; c < code_points; ++c) {
      const uint8_t got = text::classify(c);
      spaces += (got & text::space) != 0;
      breaks += (got & text::line_break) != 0;
      cjk += (got & text::cjk) != 0;
      ascii += (got & text::ascii_letter) != 0;
    }
    CHECK(spaces == 25);
    for (const char32_t c : {0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20, 0x85, 0xA0, 0x1680, 0x2000, 0x200A,
                             0x2028, 0x2029, 0x202F, 0x205F, 0x3000})
      CHECK((text::classify(c) & text::space) != 0);
    for (const char32_t c : {0x1C, 0x1F, 0x180E, 0x200B, 0x2060, 0xFEFF})
      CHECK((text::classify(c) & text::space) == 0);
    CHECK(breaks == 2);
    CHECK(cjk == (0x9FA5 - 0x4E00 + 1) + 0x60 + 0x60);
    for (const char32_t c : {0x4E00, 0x9FA5, 0x3040, 0x309F, 0x30A0, 0x30FF})
      CHECK((text::classify(c) & text::cjk) != 0);
    for (const char32_t c : {0x4DFF, 0x9FA6, 0x303F, 0x3100})
      CHECK((text::classify(c) & text::cjk) == 0);
    CHECK(ascii == 52);
  }

  TEST_CASE("published cases of well and ill-formed UTF-8 are told apart and replaced") {
    size_t invalid = 0, valid = 0;
    for (const auto& line : test::read_json_lines("tests/golden/tokenizer/utf8_cases.jsonl")) {
      CAPTURE(*test::member(line, "id")->as<std::string>());
      const std::string bytes = from_hex(*test::member(line, "bytes_hex")->as<std::string>());
      const auto* replaced = test::member(line, "replace_hex");
      CHECK(text::is_utf8(bytes) == (replaced == nullptr));
      std::string out;
      text::append_lossy(out, bytes);
      CHECK(out == (replaced == nullptr ? bytes : from_hex(*replaced->as<std::string>())));
      ++(replaced == nullptr ? valid : invalid);
    }
    CHECK(valid == 39);
    CHECK(invalid == 83);
  }
}
