#pragma once

#include "runtime/recipe/answer_format.hpp"
#include "runtime/recipe/json_writer.hpp"

#include <string>
#include <string_view>

/// What Chat Completions and Completions write alike.
namespace deepinfer::recipe {

[[nodiscard]] std::string_view openai_finish(finish_reason reason);

/// `id`, `object`, `created`, `model`, `system_fingerprint` of an object that was begun.
void write_openai_head(json_writer& json,
                       const response_identity& identity,
                       std::string_view object);

/// The member `usage`.
void write_openai_usage(json_writer& json, const token_usage& usage);

/// The frame for an error after the first byte; nothing follows it, not even `[DONE]`, so that no
/// client takes the answer for a complete one.
[[nodiscard]] std::string openai_error_frame(const api_error& error);

/// The characters of a token that may be a part of one: ill-formed bytes as U+FFFD.
[[nodiscard]] std::string shown_text(std::string_view bytes);

}  // namespace deepinfer::recipe
