#pragma once

#include "runtime/recipe/answer_format.hpp"

#include <memory>

namespace deepinfer::recipe::chat {

/// `chat.completion.chunk` frames, then `data: [DONE]`.
[[nodiscard]] std::unique_ptr<answer_format> make_events(response_identity identity,
                                                         answer_traits traits);
/// One `chat.completion` object.
[[nodiscard]] std::unique_ptr<answer_format> make_body(response_identity identity,
                                                       answer_traits traits);

}  // namespace deepinfer::recipe::chat
