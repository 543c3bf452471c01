#include "runtime/recipe/responses/request.hpp"

#include "runtime/recipe/request_fields.hpp"
#include "runtime/recipe/responses/parts.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace deepinfer::recipe::responses {
namespace {

/// A word that changes nothing here, but must be one of the known ones.
void check_word(field_reader& fields,
                std::string_view key,
                std::initializer_list<std::string_view> words) {
  const auto asked = fields.string(key);
  if (!asked || std::find(words.begin(), words.end(), *asked) != words.end()) return;
  std::string why = "must be one of";
  for (const std::string_view word : words) why.append(" ").append(word);
  fields.fail(key, why);
}

void read_reasoning(field_reader& body, conversation& talk, first_error& error) {
  std::optional<uint8_t> asked;
  if (const json_value* found = body.find("reasoning")) {
    field_reader reasoning(*found, "reasoning", error);
    asked = read_effort(reasoning, "effort", chat_efforts);
    for (const char* summary : {"summary", "generate_summary"})
      check_word(reasoning, summary, {"auto", "concise", "detailed"});
  }
  // There is no other switch: `thinking` is an unknown field of this protocol.
  apply_thinking(talk, std::nullopt, asked);
}

void read_text(field_reader& body, client_request& request, first_error& error) {
  const json_value* found = body.find("text");
  if (found == nullptr) return;
  field_reader text(*found, "text", error);
  check_word(text, "verbosity", {"low", "medium", "high"});
  const json_value* format = text.find("format");
  if (format == nullptr) return;
  field_reader fields(*format, "text.format", error);
  read_format(fields, {}, request.talk, request.generation, error);
}

}  // namespace

void read(field_reader& body,
          client_request& request,
          const conversion_options& options,
          first_error& error) {
  request.talk.thinking = options.thinking_by_default;
  request.stream = body.boolean("stream").value_or(false);
  static_cast<void>(body.string("user"));
  // The order of the checks is part of the protocol: it decides which mistake is told.
  if (!error) refuse_placeholders(body);
  read_reasoning(body, request.talk, error);
  request.generation.max_tokens = read_token_limit(body, "max_output_tokens");
  read_sampling(body, request.generation);
  flat_names names;
  if (!error) read_tools(body, request, options, names, error);
  if (!error) read_input(body, request.talk, names, error);
  if (!error) read_tool_choice(body, request.talk, options, error);
  if (!error) read_text(body, request, error);
}

}  // namespace deepinfer::recipe::responses
