#pragma once

#include "runtime/recipe/json_value.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace deepinfer::recipe {

/// 1 to 128 ASCII letters, digits, `_` and `-`.
[[nodiscard]] bool is_tool_name(std::string_view name);

/// What is wrong with `schema` as the parameters of a tool: its `type` must be "object", and every
/// keyword of JSON Schema that has a value must have one of the right kind, at every level. Empty
/// when nothing is. Unknown keywords are allowed.
[[nodiscard]] std::optional<std::string> tool_schema_complaint(const json_value& schema);

}  // namespace deepinfer::recipe
