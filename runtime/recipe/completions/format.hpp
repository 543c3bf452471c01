#pragma once

#include "runtime/recipe/answer_format.hpp"

#include <memory>

namespace deepinfer::recipe::completions {

/// `text_completion` frames, then `data: [DONE]`.
[[nodiscard]] std::unique_ptr<answer_format> make_events(response_identity identity,
                                                         answer_traits traits);
/// One `text_completion` object.
[[nodiscard]] std::unique_ptr<answer_format> make_body(response_identity identity,
                                                       answer_traits traits);

}  // namespace deepinfer::recipe::completions
