#pragma once

#include "runtime/recipe/api_error.hpp"
#include "runtime/recipe/api_protocol.hpp"
#include "runtime/recipe/json_value.hpp"

#include <optional>
#include <string_view>

namespace deepinfer::recipe {

/// The protocol by the name that `to_string` gives.
[[nodiscard]] std::optional<api_protocol> find_protocol(std::string_view name);

/// `api_error::code` of a body whose fields do not tell its protocol.
inline constexpr std::string_view unclear_protocol = "unclear_protocol";

/// Which protocol a request body is written in, told by the fields that only one of them has. A
/// body of `messages` without any such field is taken for Chat Completions. The error names two
/// fields that contradict each other, or says that nothing is known, with the code
/// `unclear_protocol`; what is no JSON object is a plain bad request.
[[nodiscard]] api_result<api_protocol> detect_protocol(std::string_view body,
                                                       const json_limits& limits = {});

}  // namespace deepinfer::recipe
