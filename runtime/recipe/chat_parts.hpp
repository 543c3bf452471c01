#pragma once

#include "runtime/recipe/conversation.hpp"
#include "runtime/recipe/field_reader.hpp"

#include <string_view>
#include <vector>

/// The pieces that `parse_chat_request` is put together from.
namespace deepinfer::recipe::chat {

/// `messages` -> conversation messages; sets `continues_last` for a `prefix` message.
void read_messages(field_reader& body, conversation& talk, first_error& error);

/// `tools` and `tool_choice`. Needs `talk.thinking` to be decided.
void read_tools(field_reader& body, conversation& talk, first_error& error);

/// `response_format`. Needs `talk.messages`.
void read_response_format(field_reader& body, conversation& talk, first_error& error);

/// Complains when client text spells the placeholder that stands for an image.
void refuse_placeholder(std::string_view text, field_reader& owner, std::string_view key);

}  // namespace deepinfer::recipe::chat
