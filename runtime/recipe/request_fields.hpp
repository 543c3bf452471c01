#pragma once

#include "runtime/recipe/client_request.hpp"
#include "runtime/recipe/conversation.hpp"
#include "runtime/recipe/field_reader.hpp"
#include "runtime/recipe/generation.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Fields that several protocols share: same names, same rules.
namespace deepinfer::recipe {

/// A word for how much to think, and the number that the prompt states; 0: not at all.
using effort_word = std::pair<std::string_view, uint8_t>;

/// none, minimal, low, medium, high, xhigh, max, ultra: Chat Completions and Responses.
extern const std::span<const effort_word> chat_efforts;
/// low, medium, high, xhigh, max, ultra: Messages.
extern const std::span<const effort_word> messages_efforts;

/// One of `words`, or an integer from 1 to 100 (an extension); nothing when absent.
[[nodiscard]] std::optional<uint8_t> read_effort(field_reader& fields,
                                                 std::string_view key,
                                                 std::span<const effort_word> words);

/// What `thinking: {"type", "budget_tokens"}` says, when it is there.
[[nodiscard]] std::optional<bool> read_thinking_switch(field_reader& body, first_error& error);

/// `thinking` decides; else an effort does; else what the conversation has.
void apply_thinking(conversation& talk,
                    std::optional<bool> thinking,
                    std::optional<uint8_t> effort);

/// `temperature`, `top_p` and the extensions `top_k`, `seed`, `ignore_eos`.
void read_sampling(field_reader& body, generation_options& options);

/// `key`: an output limit of at least 1.
[[nodiscard]] std::optional<uint32_t> read_token_limit(field_reader& body, std::string_view key);

/// An array of at most `limits::max_stop_strings`, or one string.
[[nodiscard]] std::vector<std::string> read_stop(field_reader& body, std::string_view key);

/// `stream` and `stream_options.include_usage` of Chat Completions and Completions.
void read_stream(field_reader& body, client_request& request, first_error& error);

/// Complains when client text spells the placeholder that stands for an image.
void refuse_placeholder(std::string_view text, field_reader& owner, std::string_view key);

/// `detail` of an image; high when absent.
[[nodiscard]] image_detail read_detail(field_reader& fields);

/// An image that the field `key` named by `url`: http(s) of bounded length, or a data URL.
void check_image_url(field_reader& fields, std::string_view key, std::string_view url);
[[nodiscard]] bool is_external_url(std::string_view url);

/// What declares a function: name, description, schema (`schema_key`), each checked.
[[nodiscard]] tool_definition read_function(field_reader& function, std::string_view schema_key);

/// `tool_choice` as one word: none, auto or required.
void choose_by_word(conversation& talk, std::string_view word, field_reader& body);

/// Keeps only the tool that `name` names and makes calling it required; complains in `field` when
/// it is not declared.
void choose_tool(conversation& talk,
                 std::string_view name,
                 field_reader& body,
                 std::string_view field);

/// A forced call and thinking exclude each other, and with nothing to call nothing is forced.
/// `without`: how a client of this protocol switches thinking off.
void check_forced_call(conversation& talk,
                       field_reader& body,
                       std::string_view without = "`thinking` disabled");

/// json_object needs the word "json" in some message's text.
[[nodiscard]] bool mentions_json(const conversation& talk);

/// `format` is an object with a `type`: text, json_object, json_schema or regex. `schema_key`:
/// where the schema's own object stands (`json_schema` in Chat Completions), or empty for in place.
void read_format(field_reader& format,
                 std::string_view schema_key,
                 conversation& talk,
                 generation_options& options,
                 first_error& error);

}  // namespace deepinfer::recipe
