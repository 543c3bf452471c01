#pragma once

#include "runtime/tokenizer/utf8.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

/// What the three DeepSeek Split expressions can ask about a character (Unicode 15).
namespace deepinfer::text {

/// Bits of a character's class. Exactly one of the first four for a general category that an
/// expression names, none of them for C (other) and Z (separator).
enum char_class : uint8_t {
  letter = 1,         // \p{L}
  mark = 2,           // \p{M}
  number = 4,         // \p{N}
  punctuation = 8,    // \p{P} or \p{S}
  space = 16,         // \s, which is White_Space
  line_break = 32,    // CR or LF
  cjk = 64,           // the second expression's class
  ascii_letter = 128  // [A-Za-z]
};

/// Bits of `c`.
[[nodiscard]] uint8_t classify(char32_t c) noexcept;

extern const std::array<uint8_t, 128> ascii_classes;

struct classed_character {
  uint8_t classes;
  uint32_t bytes;
};

/// The character at `at` of well-formed `text`.
[[nodiscard]] inline classed_character look_at(std::string_view text, size_t at) noexcept {
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte < 128) return {ascii_classes[byte], 1};
  const code_point found = decode_at(text, at);
  return {classify(found.value), found.bytes};
}

}  // namespace deepinfer::text
