#pragma once

#include <string_view>

/// Fixed texts of the V4.1 prompt. Protocol data: every byte counts.
namespace deepinfer::recipe::prompt_text {

/// The tool prompt stands around the tool schemas, one a line.
extern const std::string_view before_schemas;
extern const std::string_view after_schemas;

/// Around the effort number.
extern const std::string_view before_effort;
extern const std::string_view after_effort;

extern const std::string_view json_object_format;

}  // namespace deepinfer::recipe::prompt_text
