#include "runtime/recipe/custom_input_decoder.hpp"

#include <algorithm>
#include <charconv>

namespace deepinfer::recipe {
namespace {

constexpr std::string_view beginning = "{\"input\":\"";
constexpr size_t unit_bytes = 6;  // of `\uXXXX`

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r';
}

/// White space may stand between the four parts of the beginning, not inside the key.
bool may_be_space(size_t matched) {
  constexpr size_t key = 1;
  constexpr size_t colon = 8;
  return matched <= key || matched >= colon;
}

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// The character that `\c` stands for; NUL for none.
char simple_escape(char c) {
  constexpr std::string_view written = "\"\\/bfnrt";
  constexpr std::string_view meant = "\"\\/\b\f\n\r\t";
  const size_t at = written.find(c);
  return at == std::string_view::npos ? '\0' : meant[at];
}

char32_t unit_at(std::string_view escapes, size_t at) {
  uint32_t unit = 0;
  std::from_chars(escapes.data() + at + 2, escapes.data() + at + unit_bytes, unit, 16);
  return unit;
}

bool is_high(char32_t unit) {
  return unit >= 0xD800 && unit < 0xDC00;
}
bool is_low(char32_t unit) {
  return unit >= 0xDC00 && unit < 0xE000;
}

void append_character(std::string& out, char32_t value) {
  const auto add = [&out](char32_t byte) { out += static_cast<char>(byte); };
  const auto tail = [&add, value](uint32_t shift) { add(0x80 | ((value >> shift) & 0x3F)); };
  if (value < 0x80) return add(value);
  if (value < 0x800) {
    add(0xC0 | (value >> 6));
  } else if (value < 0x10000) {
    add(0xE0 | (value >> 12));
    tail(6);
  } else {
    add(0xF0 | (value >> 18));
    tail(12);
    tail(6);
  }
  tail(0);
}

}  // namespace

void custom_input_decoder::push(std::string_view arguments, std::string& out) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    switch (state_) {
      case state::start:
        take_start(arguments[i], out);
        break;
      case state::text: {
        const size_t end = std::min(arguments.find_first_of("\"\\", i), arguments.size());
        out.append(arguments, i, end - i);
        i = end;
        if (i == arguments.size()) return;
        state_ = arguments[i] == '"' ? state::done : state::escape;
        if (state_ == state::escape) held_ = '\\';
        break;
      }
      case state::escape:
        take_escape(arguments[i], out);
        break;
      case state::passing:
        out.append(arguments, i);
        return;
      case state::done:
        return;
    }
  }
}

void custom_input_decoder::finish(std::string& out) {
  pass(held_.size(), out);
  state_ = state::done;
}

void custom_input_decoder::take_start(char c, std::string& out) {
  held_ += c;
  if (c == beginning[matched_]) {
    if (++matched_ < beginning.size()) return;
    held_.clear();
    state_ = state::text;
  } else if (!is_space(c) || !may_be_space(matched_) || held_.size() > max_start_bytes) {
    pass(held_.size(), out);
    state_ = state::passing;
  }
}

void custom_input_decoder::take_escape(char c, std::string& out) {
  // Where in its own escape `c` stands: the second of a pair of surrogates begins anew.
  const size_t first = held_.size() < unit_bytes ? 0 : unit_bytes;
  const size_t place = held_.size() - first;
  if (place == 0 && c != '\\') {  // a high surrogate alone
    pass(held_.size(), out);
    state_ = state::text;
    return push({&c, 1}, out);
  }
  if (place == 1 && c != 'u') {
    pass(first, out);
    held_.clear();
    state_ = state::text;
    if (const char meant = simple_escape(c); meant != '\0') {
      out += meant;
    } else {
      out.append(1, '\\').append(1, c);
    }
    return;
  }
  if (place > 1 && !is_hex(c)) {
    pass(held_.size(), out);
    state_ = state::text;
    return push({&c, 1}, out);
  }
  held_ += c;
  if (held_.size() - first == unit_bytes) take_code_units(out);
}

void custom_input_decoder::take_code_units(std::string& out) {
  char32_t value = unit_at(held_, held_.size() - unit_bytes);
  if (held_.size() > unit_bytes) {
    if (is_low(value)) {
      value = 0x10000 + ((unit_at(held_, 0) - 0xD800) << 10) + (value - 0xDC00);
    } else {
      pass(unit_bytes, out);
    }
  }
  if (is_high(value)) return;  // its other half may follow
  if (is_low(value)) {
    pass(held_.size(), out);
  } else {
    append_character(out, value);
    held_.clear();
  }
  state_ = state::text;
}

void custom_input_decoder::pass(size_t bytes, std::string& out) {
  out.append(held_, 0, bytes);
  held_.erase(0, bytes);
}

}  // namespace deepinfer::recipe
