#pragma once

#include "runtime/recipe/client_request.hpp"

#include <string_view>

namespace deepinfer::recipe::chat {

/// The body of `POST /v1/chat/completions`.
[[nodiscard]] api_result<client_request> parse(std::string_view body,
                                               const conversion_options& options);

}  // namespace deepinfer::recipe::chat
