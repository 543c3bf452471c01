#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace deepinfer::text {

/// True when `bytes` is well-formed UTF-8 (no surrogates, no overlong forms, at most U+10FFFF).
[[nodiscard]] bool is_utf8(std::string_view bytes) noexcept;

/// One code point and its length in bytes.
struct code_point {
  char32_t value = 0;
  uint32_t bytes = 0;
};

/// The code point at `at`; `text` must be well-formed and `at` the start of a character.
[[nodiscard]] code_point decode_at(std::string_view text, size_t at) noexcept;

/// Length of the well-formed character at the start of `bytes`; 0 when there is none, and then
/// `*invalid` (if given) is the length of the maximal ill-formed part (Unicode 3.9, U+FFFD
/// substitution of maximal subparts) that one U+FFFD stands for.
[[nodiscard]] size_t character_length(std::string_view bytes, size_t* invalid = nullptr) noexcept;

/// Characters of a well-formed text.
[[nodiscard]] size_t count_characters(std::string_view text) noexcept;

/// Appends `bytes`, each maximal ill-formed part replaced by U+FFFD.
void append_lossy(std::string& out, std::string_view bytes);

/// True when `append_lossy` of `bytes` would end with U+FFFD (or append nothing). Looks at the
/// last four bytes only: a lead byte always starts a new part, so what stands before cannot matter.
[[nodiscard]] bool ends_undecided(std::string_view bytes) noexcept;

}  // namespace deepinfer::text
