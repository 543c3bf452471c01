#pragma once

#include "proto/types/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace deepinfer::recipe {

struct json_value;
struct json_member;
using json_array = std::vector<json_value>;
using json_object = std::vector<json_member>;  ///< in the order of the text, repeated keys kept

/// A parsed JSON text. Integers that fit 64 bits stay integers; all other numbers are doubles.
struct json_value {
  std::
      variant<std::monostate, bool, int64_t, uint64_t, double, std::string, json_array, json_object>
          data;

  [[nodiscard]] bool is_null() const noexcept { return data.index() == 0; }
  /// The content when it is of that type, else null.
  template <class T>
  [[nodiscard]] const T* as() const noexcept {
    return std::get_if<T>(&data);
  }
};

struct json_member {
  std::string key;
  json_value value;
};

/// What a JSON text from outside may cost before it is refused.
struct json_limits {
  size_t max_bytes = size_t{32} << 20;
  size_t max_depth = 128;         ///< nested arrays and objects
  size_t max_values = 1'000'000;  ///< values in the text, nested ones included
};

/// A member of an object somewhere else.
struct member_view {
  std::string_view key;
  const json_value* value = nullptr;
};

/// The members with every key once: at its first position, with its last value. (The look-up is
/// ordered, as are all over names that clients choose: no choice makes it slower.)
[[nodiscard]] std::vector<member_view> distinct_members(const json_object& members);

/// Strict JSON (RFC 8259): lone surrogates, control characters in strings, numbers beyond a
/// double and trailing text are refused (`invalid_argument`), and so is what exceeds a limit
/// (`too_large`).
[[nodiscard]] result<json_value> parse_json(std::string_view text, const json_limits& limits = {});

/// Appends `text` as a JSON string: escapes `"`, `\` and characters below U+0020, nothing else.
void append_json_string(std::string& out, std::string_view text);

/// The inside of such a string, without the quotes. Works byte by byte, so a text may be escaped
/// in parts.
void append_json_escaped(std::string& out, std::string_view text);

/// Appends `value` in the style that prompts use: `", "` and `": "`, order kept, a repeated key at
/// its first position with its last value, floats as Python's `repr` writes them.
void append_spaced_json(std::string& out, const json_value& value);

/// The same in the style of responses: no spaces, and small floats as `0.00001` and `1.5e-7`.
void append_compact_json(std::string& out, const json_value& value);

}  // namespace deepinfer::recipe
