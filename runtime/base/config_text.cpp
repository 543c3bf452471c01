#include "runtime/base/config_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace deepinfer::config_text {
namespace {

struct unit {
  std::string_view name;
  int64_t factor;
};

// longest first, so that printing finds the largest that divides
constexpr std::array<unit, 4> duration_units{
    {{"h", 3600000}, {"min", 60000}, {"s", 1000}, {"ms", 1}}};
constexpr std::array<unit, 5> size_units{{{"TiB", int64_t{1} << 40},
                                          {"GiB", int64_t{1} << 30},
                                          {"MiB", int64_t{1} << 20},
                                          {"KiB", int64_t{1} << 10},
                                          {"B", 1}}};
constexpr std::array<unit, 4> decimal_units{
    {{"TB", 1000000000000}, {"GB", 1000000000}, {"MB", 1000000}, {"KB", 1000}}};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// number * factor, when the result is a whole number an int64 holds.
std::optional<int64_t> scaled(std::string_view number, int64_t factor) {
  if (const auto whole = parse_integer(number)) {
    int64_t product = 0;
    if (__builtin_mul_overflow(*whole, factor, &product)) return std::nullopt;
    return product;
  }
  const auto real = parse_real(number);
  if (!real) return std::nullopt;
  const double product = *real * static_cast<double>(factor);
  if (!(std::abs(product) < 9e15) || std::nearbyint(product) != product) return std::nullopt;
  return static_cast<int64_t>(product);
}

/// Splits "64 MiB" into number and unit.
std::pair<std::string_view, std::string_view> split_unit(std::string_view text) {
  const size_t end = text.find_last_of("0123456789.");
  if (end == std::string_view::npos) return {text, {}};
  return {trim(text.substr(0, end + 1)), trim(text.substr(end + 1))};
}

template <size_t N>
std::optional<int64_t> with_unit(std::string_view number,
                                 std::string_view name,
                                 const std::array<unit, N>& units) {
  for (const unit& u : units)
    if (same_word(name, u.name)) return scaled(number, u.factor);
  return std::nullopt;
}

template <size_t N>
std::string print_with_unit(int64_t value, const std::array<unit, N>& units) {
  for (const unit& u : units)
    if (value != 0 && value % u.factor == 0)
      return std::to_string(value / u.factor) + std::string(u.name);
  return std::to_string(value) + std::string(units.back().name);
}

size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row.back();
}

}  // namespace

std::optional<bool> parse_bool(std::string_view text) {
  for (const std::string_view yes : {"true", "1", "yes", "on"})
    if (same_word(text, yes)) return true;
  for (const std::string_view no : {"false", "0", "no", "off"})
    if (same_word(text, no)) return false;
  return std::nullopt;
}

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<double> parse_real(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  const auto [number, name] = split_unit(trim(text));
  const auto count = with_unit(number, name.empty() ? "ms" : name, duration_units);
  if (!count) return std::nullopt;
  return std::chrono::milliseconds{*count};
}

std::optional<int64_t> parse_size(std::string_view text) {
  const auto [number, name] = split_unit(trim(text));
  if (name.empty()) return scaled(number, 1);
  if (const auto count = with_unit(number, name, size_units)) return count;
  return with_unit(number, name, decimal_units);
}

std::vector<std::string> parse_list(std::string_view text) {
  std::vector<std::string> items;
  while (!trim(text).empty()) {
    const size_t comma = text.find(',');
    const std::string_view item = trim(text.substr(0, comma));
    if (!item.empty()) items.emplace_back(item);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return items;
}

std::string print_duration(std::chrono::milliseconds value) {
  return print_with_unit(value.count(), duration_units);
}

std::string print_size(uint64_t value) {
  return print_with_unit(static_cast<int64_t>(value), size_units);
}

std::string print_real(double value) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return "0.0";
  std::string out(text.data(), end);
  // TOML tells 1 from 1.0
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

std::string quote(std::string_view text) {
  constexpr std::string_view hex = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += "\\u00";
      out += hex[static_cast<unsigned char>(c) >> 4];
      out += hex[static_cast<unsigned char>(c) & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  constexpr size_t longest_word = 200;  // the distance is quadratic, and the word is foreign
  if (word.size() > longest_word) return std::nullopt;
  std::optional<std::string> best;
  size_t best_edits = std::max<size_t>(3, word.size() / 2);
  for (const std::string& candidate : candidates) {
    const size_t distance = edits(word, candidate);
    if (distance < best_edits) {
      best = candidate;
      best_edits = distance;
    }
  }
  return best;
}

}  // namespace deepinfer::config_text
