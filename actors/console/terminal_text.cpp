#include "actors/console/terminal_text.hpp"

#include "runtime/tokenizer/utf8.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace deepinfer::view {
namespace {

constexpr std::string_view colours_off = "\x1b[0m";

struct code_range {
  char32_t first, last;
};

// Zero columns: combining marks of the scripts in use, joiners, variation selectors.
constexpr std::array<code_range, 16> marks{{{0x0300, 0x036F},
                                            {0x0483, 0x0489},
                                            {0x0591, 0x05BD},
                                            {0x0610, 0x061A},
                                            {0x064B, 0x065F},
                                            {0x0900, 0x0902},
                                            {0x093A, 0x093C},
                                            {0x0941, 0x0948},
                                            {0x0E34, 0x0E3A},
                                            {0x0E47, 0x0E4E},
                                            {0x200B, 0x200D},
                                            {0x20D0, 0x20FF},
                                            {0x3099, 0x309A},
                                            {0xFE00, 0xFE0F},
                                            {0xFE20, 0xFE2F},
                                            {0xE0100, 0xE01EF}}};

// Two columns: Unicode's East Asian Width "wide" and "fullwidth", merged to blocks.
constexpr std::array<code_range, 16> wide{{{0x1100, 0x115F},
                                           {0x231A, 0x231B},
                                           {0x23E9, 0x23EC},
                                           {0x2E80, 0x303E},
                                           {0x3041, 0x3247},
                                           {0x3250, 0x4DBF},
                                           {0x4E00, 0xA4CF},
                                           {0xA960, 0xA97C},
                                           {0xAC00, 0xD7A3},
                                           {0xF900, 0xFAFF},
                                           {0xFE30, 0xFE6F},
                                           {0xFF01, 0xFF60},
                                           {0xFFE0, 0xFFE6},
                                           {0x1F300, 0x1F64F},
                                           {0x1F680, 0x1FAFF},
                                           {0x20000, 0x3FFFD}}};

template <size_t N>
bool contains(const std::array<code_range, N>& ranges, char32_t c) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](const code_range& r) { return c >= r.first && c <= r.last; });
}

size_t columns_of(char32_t c) {
  if (c < 0x300) return 1;
  if (contains(marks, c)) return 0;
  return contains(wide, c) ? 2 : 1;
}

bool is_control(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0);
}

// These reorder the text around them, so that a line can look like another one; U+2028 and U+2029
// break lines.
bool turns_text(char32_t c) {
  return c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069);
}

std::string escape(const char* format, char32_t c) {
  std::array<char, 16> out{};
  std::snprintf(out.data(), out.size(), format, static_cast<unsigned>(c));
  return out.data();
}

/// Copies `text`; `escaped` gives the stand-in of a character, empty to keep it.
template <class Escaped>
std::string rewrite(std::string_view text, const Escaped& escaped) {
  std::string valid;
  if (!text::is_utf8(text)) {
    text::append_lossy(valid, text);
    text = valid;
  }
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const text::code_point c = text::decode_at(text, at);
    const std::string other = escaped(c.value);
    out += other.empty() ? text.substr(at, c.bytes) : std::string_view{other};
    at += c.bytes;
  }
  return out;
}

/// Length of the colour sequence at `at`, 0 if there is none.
size_t sequence_at(std::string_view text, size_t at) {
  if (!text.substr(at).starts_with("\x1b[")) return 0;
  const size_t end = text.find('m', at);
  return end == std::string_view::npos ? 0 : end + 1 - at;
}

}  // namespace

std::string palette::paint(tone how, std::string_view text) const {
  constexpr std::array<std::string_view, 7> starts{"",         "\x1b[2m",  "\x1b[1m", "\x1b[36m",
                                                   "\x1b[32m", "\x1b[33m", "\x1b[31m"};
  if (!is_on || how == tone::plain || text.empty()) return std::string{text};
  return std::string{starts[static_cast<size_t>(how)]}.append(text).append(colours_off);
}

std::string printable(std::string_view text) {
  return rewrite(text, [](char32_t c) -> std::string {
    if (is_control(c)) return escape("\\x%02x", c);
    return turns_text(c) ? escape("\\u%04x", c) : std::string{};
  });
}

std::string printable_lines(std::string_view text) {
  return rewrite(text, [](char32_t c) -> std::string {
    if (c == '\n' || c == '\t') return {};
    return is_control(c) ? escape("\\x%02x", c) : std::string{};
  });
}

std::string printable_json(std::string_view json) {
  return rewrite(json, [](char32_t c) -> std::string {
    // below U+0020 valid JSON holds only blanks between values
    if (c == '\n' || c == '\t') return {};
    return is_control(c) || turns_text(c) ? escape("\\u%04x", c) : std::string{};
  });
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  for (size_t at = 0; at < text.size();) {
    if (const size_t skip = sequence_at(text, at); skip > 0) {
      at += skip;
      continue;
    }
    const text::code_point c = text::decode_at(text, at);
    width += columns_of(c.value);
    at += c.bytes;
  }
  return width;
}

std::string clip(std::string_view painted, size_t width) {
  if (display_width(painted) <= width) return std::string{painted};
  if (width == 0) return {};
  std::string out;
  size_t used = 0;
  bool is_coloured = false;
  for (size_t at = 0; at < painted.size();) {
    if (const size_t skip = sequence_at(painted, at); skip > 0) {
      is_coloured = painted.substr(at, skip) != colours_off;
      out += painted.substr(at, skip);
      at += skip;
      continue;
    }
    const text::code_point c = text::decode_at(painted, at);
    if (used + columns_of(c.value) > width - 1) break;
    out += painted.substr(at, c.bytes);
    used += columns_of(c.value);
    at += c.bytes;
  }
  out += "…";
  if (is_coloured) out += colours_off;
  return out;
}

std::string fit(std::string_view text, size_t width, align side) {
  std::string out = clip(text, width);
  const size_t used = display_width(out);
  const std::string blanks(width - std::min(width, used), ' ');
  return side == align::left ? out + blanks : blanks + out;
}

std::string short_count(double value) {
  constexpr std::array<char, 5> units{' ', 'k', 'M', 'G', 'T'};
  if (!std::isfinite(value)) return "?";
  size_t unit = 0;
  double size = std::fabs(value);
  // 999.95 would be shown as "1000.0"
  while (size >= 999.5 && unit + 1 < units.size()) {
    size /= 1000;
    ++unit;
  }
  std::array<char, 32> out{};
  const bool is_whole = size >= 9.95 || (unit == 0 && size == std::floor(size));
  std::snprintf(out.data(), out.size(), is_whole ? "%s%.0f" : "%s%.1f", value < 0 ? "-" : "", size);
  return unit == 0 ? std::string{out.data()} : std::string{out.data()} + units[unit];
}

std::string short_duration(double seconds) {
  if (!(seconds >= 0)) return "?";
  // more than any uptime, and safe to convert
  const auto whole = static_cast<uint64_t>(std::min(seconds, 1e12));
  std::array<char, 48> out{};
  const auto print = [&out](const char* format, uint64_t a, uint64_t b) {
    std::snprintf(out.data(), out.size(), format, static_cast<unsigned long long>(a),
                  static_cast<unsigned long long>(b));
    return std::string{out.data()};
  };
  if (whole < 60) return std::to_string(whole) + "s";
  if (whole < 3600) return print("%llum%02llus", whole / 60, whole % 60);
  if (whole < 86400) return print("%lluh%02llum", whole / 3600, whole / 60 % 60);
  return print("%llud%02lluh", whole / 86400, whole / 3600 % 24);
}

}  // namespace deepinfer::view
