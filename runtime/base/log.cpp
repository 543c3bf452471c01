#include "runtime/base/log.hpp"

#include <array>

namespace deepinfer {
namespace {

constexpr std::array<std::string_view, 4> level_names{"debug", "info", "warn", "error"};

void append_number(std::string& out, unsigned value, size_t digits) {
  const std::string text = std::to_string(value);
  out.append(digits > text.size() ? digits - text.size() : 0, '0');
  out += text;
}

void append_time(std::string& out, std::chrono::sys_time<std::chrono::milliseconds> time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss clock{time - day};
  append_number(out, static_cast<unsigned>(static_cast<int>(date.year())), 4);
  out += '-';
  append_number(out, static_cast<unsigned>(date.month()), 2);
  out += '-';
  append_number(out, static_cast<unsigned>(date.day()), 2);
  out += 'T';
  append_number(out, static_cast<unsigned>(clock.hours().count()), 2);
  out += ':';
  append_number(out, static_cast<unsigned>(clock.minutes().count()), 2);
  out += ':';
  append_number(out, static_cast<unsigned>(clock.seconds().count()), 2);
  out += '.';
  append_number(out, static_cast<unsigned>(clock.subseconds().count()), 3);
  out += 'Z';
}

/// Length of the well-formed UTF-8 character at the front; 0 if there is none.
size_t utf8_length(std::string_view text) {
  const auto byte = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool outside = (first == 0xED && byte(1) > 0x9F) || (first == 0xF4 && byte(1) > 0x8F);
  // U+0080..U+009F are control characters too: some terminals obey them
  const bool control = first == 0xC2 && byte(1) < 0xA0;
  return overlong || outside || control ? 0 : length;
}

bool needs_quotes(std::string_view value) {
  if (value.empty()) return true;
  for (const char c : value)
    if (static_cast<unsigned char>(c) <= 0x20 || c == '"' || c == '=' || c == '\\' || c == 0x7F)
      return true;
  return false;
}

void append_escaped(std::string& out, std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  while (!text.empty()) {
    const char c = text.front();
    size_t length = utf8_length(text);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (length == 0 || static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += "\\x";
      out += hex[static_cast<unsigned char>(c) >> 4];
      out += hex[static_cast<unsigned char>(c) & 15];
      length = 1;
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
}

/// The longest front part of `value` worth escaping: escaping makes at most four bytes of one.
std::string_view bounded(std::string_view value) {
  return value.substr(0, max_log_line_bytes);
}

}  // namespace

std::string_view to_string(log_level level) noexcept {
  return level_names[static_cast<size_t>(level)];
}

log_field::log_field(std::string_view k, double v) : key(k) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), v);
  if (error == std::errc{}) value.assign(text.data(), end);
}

std::string format_log_line(std::chrono::sys_time<std::chrono::milliseconds> time,
                            log_level level,
                            std::string_view event,
                            std::span<const log_field> fields) {
  constexpr std::string_view cut_mark = "…";
  std::string out;
  append_time(out, time);
  out += ' ';
  out += to_string(level);
  out += ' ';
  append_escaped(out, bounded(event));
  for (const log_field& field : fields) {
    if (out.size() > max_log_line_bytes) break;
    out += ' ';
    append_escaped(out, bounded(field.key));
    out += '=';
    const bool quoted = needs_quotes(field.value);
    if (quoted) out += '"';
    append_escaped(out, bounded(field.value));
    if (quoted) out += '"';
  }
  if (out.size() <= max_log_line_bytes) return out;
  size_t end = max_log_line_bytes - cut_mark.size();
  while ((static_cast<unsigned char>(out[end]) & 0xC0) == 0x80) --end;  // not inside a character
  out.resize(end);
  return out += cut_mark;
}

ring_log::ring_log(size_t capacity_lines, log_level least, log_clock clock)
    : capacity_lines_(capacity_lines), least_(least), clock_(std::move(clock)) {}

void ring_log::write(log_level level, std::string_view event, std::span<const log_field> fields) {
  if (enabled(level)) keep(format_log_line(clock_(), level, event, fields));
}

void ring_log::keep(std::string line) {
  const std::lock_guard lock{mutex_};
  lines_.push_back(std::move(line));
  if (lines_.size() > capacity_lines_) lines_.pop_front();
}

std::vector<std::string> ring_log::tail(size_t count) const {
  const std::lock_guard lock{mutex_};
  const size_t shown = std::min(count, lines_.size());
  return {lines_.end() - static_cast<ptrdiff_t>(shown), lines_.end()};
}

}  // namespace deepinfer
