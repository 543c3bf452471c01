#pragma once

#include "runtime/recipe/client_request.hpp"
#include "runtime/recipe/field_reader.hpp"

#include <optional>
#include <string>
#include <string_view>

/// The pieces that `messages::parse` is put together from.
namespace deepinfer::recipe::messages {

/// What a block shows as text, when it is of a kind that may stand almost anywhere: text,
/// tool_reference, document, image. An image gives its placeholder and goes to `to.images`, and is
/// an error where `to` cannot have any. Nothing for other types, about which it does not complain.
[[nodiscard]] std::optional<std::string> read_shown_block(field_reader& block,
                                                          std::string_view type,
                                                          message& to,
                                                          first_error& error);

/// A field that is a string, or an array of such blocks, which empty lines join in `to.content`.
void read_texts(field_reader& fields, std::string_view key, message& to, first_error& error);

/// The `source` of an image block.
[[nodiscard]] image_source read_image_source(field_reader& source);

/// `messages` -> conversation messages.
void read_messages(field_reader& body,
                   conversation& talk,
                   const conversion_options& options,
                   first_error& error);

/// `tools` and `tool_choice`. Needs `talk.thinking` to be decided.
void read_tools(field_reader& body,
                client_request& request,
                const conversion_options& options,
                first_error& error);

}  // namespace deepinfer::recipe::messages
