#pragma once

#include "runtime/recipe/json_value.hpp"
#include "tests/support/source_tree.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer::test {

/// One line of a file of recorded ids. In `pieces` plain text and added tokens take turns, plain
/// text first; lines without it are one plain `text`.
struct vector_line {
  std::string text;
  std::vector<std::string> pieces;
  std::vector<int32_t> ids;
};

inline const recipe::json_value* member(const recipe::json_value& object, std::string_view key) {
  for (const auto& each : *object.as<recipe::json_object>())
    if (each.key == key) return &each.value;
  return nullptr;
}

inline std::vector<recipe::json_value> read_json_lines(const std::string& file) {
  std::vector<recipe::json_value> lines;
  for (const std::string& line : read_source_lines(file)) {
    auto parsed = recipe::parse_json(line);
    REQUIRE(parsed);
    lines.push_back(*std::move(parsed));
  }
  return lines;
}

inline std::vector<vector_line> read_vectors(const std::string& file) {
  std::vector<vector_line> lines;
  for (const auto& line : read_json_lines(file)) {
    vector_line made;
    if (const auto* text = member(line, "text")) made.text = *text->as<std::string>();
    if (const auto* pieces = member(line, "pieces"))
      for (const auto& piece : *pieces->as<recipe::json_array>())
        made.pieces.push_back(*piece.as<std::string>());
    const auto* ids = member(line, "ids");
    REQUIRE(ids != nullptr);
    for (const auto& id : *ids->as<recipe::json_array>())
      made.ids.push_back(static_cast<int32_t>(*id.as<int64_t>()));
    lines.push_back(std::move(made));
  }
  return lines;
}

}  // namespace deepinfer::test
