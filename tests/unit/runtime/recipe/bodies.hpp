#pragma once

#include "runtime/recipe/json_value.hpp"
#include "tests/support/source_tree.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

/// Makes and reads JSON in tests of the recipe.
namespace deepinfer::test {

inline std::string json_string(std::string_view text) {
  std::string out;
  recipe::append_json_string(out, text);
  return out;
}

inline recipe::json_value read_json(std::string_view text) {
  auto parsed = recipe::parse_json(text);
  REQUIRE_MESSAGE(parsed, "not JSON: ", std::string(text.substr(0, 200)));
  return *std::move(parsed);
}

inline const recipe::json_value* find_member(const recipe::json_value& object,
                                             std::string_view key) {
  const auto* members = object.as<recipe::json_object>();
  REQUIRE(members != nullptr);
  for (const recipe::json_member& entry : *members)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

inline const recipe::json_value& member(const recipe::json_value& object, std::string_view key) {
  const auto* found = find_member(object, key);
  REQUIRE_MESSAGE(found != nullptr, "no member ", std::string(key));
  return *found;
}

inline std::string string_member(const recipe::json_value& object, std::string_view key) {
  const auto* text = member(object, key).as<std::string>();
  REQUIRE(text != nullptr);
  return *text;
}

/// Any value as text, for comparing and for passing on.
inline std::string spaced(const recipe::json_value& value) {
  std::string out;
  recipe::append_spaced_json(out, value);
  return out;
}

/// A request with these messages (JSON) and further fields (JSON, each with a comma before).
inline std::string chat_body(std::string_view messages, std::string_view more = {}) {
  return "{\"model\":\"tiny-v41\",\"messages\":" + std::string(messages) + std::string(more) + "}";
}

/// A request with one user message.
inline std::string user_body(std::string_view user, std::string_view more = {}) {
  return chat_body("[{\"role\":\"user\",\"content\":" + json_string(user) + "}]", more);
}

}  // namespace deepinfer::test
