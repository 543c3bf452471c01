#pragma once

#include "runtime/recipe/answer_format.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace deepinfer::recipe::messages {

/// Events `message_start` to `message_stop`.
[[nodiscard]] std::unique_ptr<answer_format> make_events(response_identity identity,
                                                         answer_traits traits);
/// One `message` object.
[[nodiscard]] std::unique_ptr<answer_format> make_body(response_identity identity,
                                                       answer_traits traits);

/// `{"type":"error","error":{"type","message"},"request_id"}`, with the type that clients of this
/// protocol expect for the status.
[[nodiscard]] std::string error_body(const api_error& error, std::string_view request_id);

/// The answer to `POST /v1/messages/count_tokens`.
[[nodiscard]] std::string count_body(size_t tokens);

}  // namespace deepinfer::recipe::messages
