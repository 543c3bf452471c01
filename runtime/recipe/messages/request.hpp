#pragma once

#include "runtime/recipe/client_request.hpp"

#include <string_view>

namespace deepinfer::recipe::messages {

/// The body of `POST /v1/messages`.
[[nodiscard]] api_result<client_request> parse(std::string_view body,
                                               const conversion_options& options);

}  // namespace deepinfer::recipe::messages
