#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// Text for people at a terminal. Pure. What comes from elsewhere (a model, another node) goes
/// through `printable` first: an escape sequence in it must never reach the terminal.
namespace deepinfer::view {

enum class tone : uint8_t { plain, dim, bold, accent, good, warn, bad };

/// Writes colours, or nothing when they are off (NO_COLOR, a pipe).
struct palette {
  bool is_on = false;

  [[nodiscard]] std::string paint(tone how, std::string_view text) const;
};

/// One line: control characters as `\xNN` (line feed and tab too), characters that turn the
/// direction of text as `\uNNNN`, ill-formed UTF-8 as U+FFFD.
[[nodiscard]] std::string printable(std::string_view text);

/// The same, but line feeds and tabs stay.
[[nodiscard]] std::string printable_lines(std::string_view text);

/// Valid JSON text for a terminal: what `printable` escapes can only stand inside strings, where it
/// becomes a JSON escape; the meaning stays.
[[nodiscard]] std::string printable_json(std::string_view json);

/// Columns that a terminal needs for it; colour sequences of `palette` need none. Wide East Asian
/// characters and emoji count two, combining marks none.
[[nodiscard]] size_t display_width(std::string_view text);

enum class align : uint8_t { left, right };

/// Exactly `width` columns: cut with an ellipsis, or filled with blanks. Knows no colours: paint
/// afterwards.
[[nodiscard]] std::string fit(std::string_view text, size_t width, align side = align::left);

/// At most `width` columns, colour sequences kept whole and ended.
[[nodiscard]] std::string clip(std::string_view painted, size_t width);

[[nodiscard]] std::string short_count(double value);       ///< "0.4", "12", "1.2k", "3.4M"
[[nodiscard]] std::string short_duration(double seconds);  ///< "42s", "3m12s", "5h03m", "2d04h"

}  // namespace deepinfer::view
