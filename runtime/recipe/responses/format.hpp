#pragma once

#include "runtime/recipe/answer_format.hpp"

#include <memory>

namespace deepinfer::recipe::responses {

/// Events `response.created` to `response.completed` or `response.incomplete`.
[[nodiscard]] std::unique_ptr<answer_format> make_events(response_identity identity,
                                                         answer_traits traits);
/// The `response` object of the last event.
[[nodiscard]] std::unique_ptr<answer_format> make_body(response_identity identity,
                                                       answer_traits traits);

}  // namespace deepinfer::recipe::responses
