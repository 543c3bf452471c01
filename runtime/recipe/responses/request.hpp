#pragma once

#include "runtime/recipe/client_request.hpp"

#include <string_view>

namespace deepinfer::recipe::responses {

/// The body of `POST /v1/responses`.
[[nodiscard]] api_result<client_request> parse(std::string_view body,
                                               const conversion_options& options);

}  // namespace deepinfer::recipe::responses
