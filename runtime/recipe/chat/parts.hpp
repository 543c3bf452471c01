#pragma once

#include "runtime/recipe/client_request.hpp"
#include "runtime/recipe/field_reader.hpp"

/// The pieces that `chat::parse` is put together from.
namespace deepinfer::recipe::chat {

/// `messages` -> conversation messages; sets `continues_last` for a `prefix` message.
void read_messages(field_reader& body, conversation& talk, first_error& error);

/// `tools` and `tool_choice`. Needs `talk.thinking` to be decided.
void read_tools(field_reader& body, conversation& talk, first_error& error);

}  // namespace deepinfer::recipe::chat
