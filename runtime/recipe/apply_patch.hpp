#pragma once

#include "runtime/recipe/conversation.hpp"

#include <string_view>

namespace deepinfer::recipe {

/// Name of the one custom tool that clients may declare. To the model it is a function with one
/// string argument, `input`, which holds the patch.
inline constexpr std::string_view apply_patch_name = "apply_patch";

/// What the model is told about patches when the operator supplies no other text.
extern const std::string_view apply_patch_description;

/// The tool as prompts list it. Byte-exact parity with another server's prompts needs that server's
/// description, which is not ours to ship.
[[nodiscard]] tool_definition apply_patch_tool(
    std::string_view description = apply_patch_description);

}  // namespace deepinfer::recipe
