#include "runtime/recipe/json_value.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

namespace deepinfer::recipe {
namespace {

/// How one reader wants a value written.
struct json_style {
  std::string_view comma, colon;
  int least_exponent;   // of a float in positional notation
  int exponent_digits;  // at least
};

constexpr json_style spaced{", ", ": ", -4, 2};
constexpr json_style compact{",", ":", -5, 1};

/// The shortest digits that read back the same, in positional notation for exponents up to 15,
/// with `.0` when nothing else says that it is a float.
void append_double(std::string& out, double value, const json_style& style) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific);
  std::string_view text(buffer.data(), static_cast<size_t>(end.ptr - buffer.data()));
  if (text.front() == '-') {
    out += '-';
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  int exponent = 0;
  const size_t sign = e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(text.data() + sign, text.data() + text.size(), exponent);
  std::string digits(text.substr(0, e));
  if (digits.size() > 1) digits.erase(1, 1);
  const int count = static_cast<int>(digits.size());
  if (exponent < style.least_exponent || exponent >= 16) {
    if (count > 1) digits.insert(1, 1, '.');
    const int size = std::abs(exponent);
    out += digits + (exponent < 0 ? "e-" : "e+");
    if (size < 10 && style.exponent_digits > 1) out += '0';
    out += std::to_string(size);
  } else if (exponent < 0) {
    out += "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  } else if (count <= exponent + 1) {
    out += digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  } else {
    out += digits.insert(static_cast<size_t>(exponent + 1), 1, '.');
  }
}

void append_value(std::string& out, const json_value& value, const json_style& style);

void append_object(std::string& out, const json_object& members, const json_style& style) {
  out += '{';
  bool first = true;
  for (const member_view& member : distinct_members(members)) {
    if (!std::exchange(first, false)) out += style.comma;
    append_json_string(out, member.key);
    out += style.colon;
    append_value(out, *member.value, style);
  }
  out += '}';
}

void append_value(std::string& out, const json_value& value, const json_style& style) {
  if (const auto* truth = value.as<bool>()) {
    out += *truth ? "true" : "false";
  } else if (const auto* number = value.as<int64_t>()) {
    out += std::to_string(*number);
  } else if (const auto* large = value.as<uint64_t>()) {
    out += std::to_string(*large);
  } else if (const auto* real = value.as<double>()) {
    append_double(out, *real, style);
  } else if (const auto* text = value.as<std::string>()) {
    append_json_string(out, *text);
  } else if (const auto* items = value.as<json_array>()) {
    out += '[';
    bool first = true;
    for (const json_value& item : *items) {
      if (!std::exchange(first, false)) out += style.comma;
      append_value(out, item, style);
    }
    out += ']';
  } else if (const auto* members = value.as<json_object>()) {
    append_object(out, *members, style);
  } else {
    out += "null";
  }
}

bool needs_escape(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\';
}

/// Bytes in front of the first that needs an escape. Eight at a time: most of what a server writes
/// is names and text that need none.
size_t plain_bytes(std::string_view text) {
  constexpr uint64_t ones = 0x0101010101010101u;
  constexpr uint64_t high = 0x8080808080808080u;
  const auto has_below = [](uint64_t eight, uint64_t least) {
    return (eight - ones * least) & ~eight & high;
  };
  size_t i = 0;
  for (; i + sizeof(uint64_t) <= text.size(); i += sizeof(uint64_t)) {
    uint64_t eight = 0;
    std::memcpy(&eight, text.data() + i, sizeof eight);
    if ((has_below(eight, 0x20) | has_below(eight ^ (ones * '"'), 1) |
         has_below(eight ^ (ones * '\\'), 1)) != 0)
      break;
  }
  while (i < text.size() && !needs_escape(text[i])) ++i;
  return i;
}

void append_escape(std::string& out, char c) {
  constexpr std::string_view hex = "0123456789abcdef";
  constexpr std::string_view short_forms = "\"\\\b\f\n\r\t";
  constexpr std::string_view letters = "\"\\bfnrt";
  out += '\\';
  if (const size_t at = short_forms.find(c); at != std::string_view::npos) {
    out += letters[at];
    return;
  }
  out += "u00";
  out += hex[static_cast<unsigned char>(c) >> 4];
  out += hex[static_cast<unsigned char>(c) & 15];
}

}  // namespace

std::vector<member_view> distinct_members(const json_object& members) {
  std::vector<member_view> distinct;
  distinct.reserve(members.size());
  std::map<std::string_view, size_t> places;
  for (const json_member& member : members) {
    const auto [found, is_new] = places.try_emplace(member.key, distinct.size());
    if (is_new) {
      distinct.push_back({member.key, &member.value});
    } else {
      distinct[found->second].value = &member.value;
    }
  }
  return distinct;
}

void append_json_escaped(std::string& out, std::string_view text) {
  for (size_t i = plain_bytes(text); i < text.size(); i = plain_bytes(text)) {
    out.append(text, 0, i);
    append_escape(out, text[i]);
    text.remove_prefix(i + 1);
  }
  out += text;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  append_json_escaped(out, text);
  out += '"';
}

void append_spaced_json(std::string& out, const json_value& value) {
  append_value(out, value, spaced);
}

void append_compact_json(std::string& out, const json_value& value) {
  append_value(out, value, compact);
}

}  // namespace deepinfer::recipe
