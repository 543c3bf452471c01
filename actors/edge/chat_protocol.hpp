#pragma once

#include "actors/messages/protocol.hpp"
#include "runtime/recipe/chat_codec.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <memory>

namespace deepinfer {

/// Chat Completions over `runtime/recipe`.
[[nodiscard]] std::shared_ptr<const protocol_codec> make_chat_protocol(
    std::shared_ptr<const text::tokenizer> tokenizer,
    recipe::served_model model,
    const recipe::recipe_options& options);

}  // namespace deepinfer
