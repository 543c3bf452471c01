#pragma once

#include "actors/messages/protocol.hpp"
#include "runtime/recipe/prepare.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <memory>

namespace deepinfer {

/// The public interfaces over `runtime/recipe`.
[[nodiscard]] std::shared_ptr<const protocol_codec> make_api_protocols(
    std::shared_ptr<const text::tokenizer> tokenizer,
    recipe::served_model model,
    const recipe::recipe_options& options);

}  // namespace deepinfer
