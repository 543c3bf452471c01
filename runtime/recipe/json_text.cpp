#include "runtime/recipe/json_value.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <unordered_map>

namespace deepinfer::recipe {
namespace {

/// As Python's `repr`: the shortest digits that read back the same, in positional notation for
/// exponents -4 to 15, with `.0` when nothing else says that it is a float.
void append_double(std::string& out, double value) {
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
  if (exponent < -4 || exponent >= 16) {
    if (count > 1) digits.insert(1, 1, '.');
    const int size = std::abs(exponent);
    out += digits + (exponent < 0 ? "e-" : "e+") + (size < 10 ? "0" : "") + std::to_string(size);
  } else if (exponent < 0) {
    out += "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  } else if (count <= exponent + 1) {
    out += digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  } else {
    out += digits.insert(static_cast<size_t>(exponent + 1), 1, '.');
  }
}

void append_object(std::string& out, const json_object& members) {
  // The last value of each key, looked up only where keys can repeat.
  std::unordered_map<std::string_view, const json_value*> last;
  for (const json_member& member : members) last[member.key] = &member.value;
  out += '{';
  bool first = true;
  for (const json_member& member : members) {
    const auto found = last.find(member.key);
    if (found == last.end()) continue;  // written at its first position
    if (!std::exchange(first, false)) out += ", ";
    append_json_string(out, member.key);
    out += ": ";
    append_spaced_json(out, *found->second);
    last.erase(found);
  }
  out += '}';
}

}  // namespace

void append_json_escaped(std::string& out, std::string_view text) {
  static constexpr std::string_view hex = "0123456789abcdef";
  size_t plain = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, plain, i - plain);
    plain = i + 1;
    out += '\\';
    switch (c) {
      case '"':
      case '\\':
        out += static_cast<char>(c);
        break;
      case '\b':
        out += 'b';
        break;
      case '\f':
        out += 'f';
        break;
      case '\n':
        out += 'n';
        break;
      case '\r':
        out += 'r';
        break;
      case '\t':
        out += 't';
        break;
      default:
        out += "u00";
        out += hex[c >> 4];
        out += hex[c & 15];
    }
  }
  out.append(text, plain);
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  append_json_escaped(out, text);
  out += '"';
}

void append_spaced_json(std::string& out, const json_value& value) {
  if (const auto* truth = value.as<bool>()) {
    out += *truth ? "true" : "false";
  } else if (const auto* number = value.as<int64_t>()) {
    out += std::to_string(*number);
  } else if (const auto* large = value.as<uint64_t>()) {
    out += std::to_string(*large);
  } else if (const auto* real = value.as<double>()) {
    append_double(out, *real);
  } else if (const auto* text = value.as<std::string>()) {
    append_json_string(out, *text);
  } else if (const auto* items = value.as<json_array>()) {
    out += '[';
    bool first = true;
    for (const json_value& item : *items) {
      if (!std::exchange(first, false)) out += ", ";
      append_spaced_json(out, item);
    }
    out += ']';
  } else if (const auto* members = value.as<json_object>()) {
    append_object(out, *members);
  } else {
    out += "null";
  }
}

}  // namespace deepinfer::recipe
